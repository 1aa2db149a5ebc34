//! Layers, warnings and refusals, as an operator meets them.

use std::path::PathBuf;

use super::*;
use crate::config::{AllocationStrategy, Durability, DynamicConfig, DynamicMode, TierConfig};

fn load_with(args: &[&str], env: &[(&str, &str)]) -> Result<Settings, String> {
    let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    match load(&args, env) {
        Ok(Loaded::Settings(settings)) => Ok(*settings),
        Ok(Loaded::Question(question)) => panic!("{question:?}"),
        Err(error) => Err(error.to_string()),
    }
}

fn flags(args: &[&str]) -> Result<Settings, String> {
    load_with(args, &[])
}

/// Writes `text` to a file called `name` and loads it, with `args` on the command line.
fn from_file(name: &str, text: &str, args: &[&str]) -> Result<Settings, String> {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    let flag = format!("--config_path={}", path.display());
    let args: Vec<_> = std::iter::once(flag.as_str()).chain(args.iter().copied()).collect();
    let shown = path.display().to_string();
    load_with(&args, &[]).map_err(|sentence| sentence.replace(&shown, "FILE"))
}

#[test]
fn nothing_given_is_the_default_without_a_word() {
    let settings = flags(&[]).unwrap();
    assert_eq!(settings.config, Config::default());
    assert!(settings.warnings.is_empty() && settings.sources.is_empty());
}

#[test]
fn flags_win_over_environment_and_environment_over_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.yaml");
    std::fs::write(&path, "rpc_port: 1\nmetrics_port: 2\nclient_ttl: 3\n").unwrap();
    let env = [
        ("MOONCAKE_HA_CONFIG_PATH", path.to_str().unwrap()),
        ("MOONCAKE_HA_RPC_PORT", "10"),
        ("MOONCAKE_HA_METRICS_PORT", "20"),
    ];
    let settings = load_with(&["--rpc_port=100"], &env).unwrap();
    let config = settings.config;
    assert_eq!((config.rpc.port, config.admin.port, config.clients.ttl_sec), (100, 20, 3));
    assert_eq!(
        settings.sources,
        [
            "file: rpc_port, metrics_port, client_ttl",
            "environment: config_path, rpc_port, metrics_port",
            "flags: rpc_port"
        ]
    );
}

#[test]
fn a_flag_equal_to_the_default_still_wins_over_the_file() {
    let settings = from_file("a.json", r#"{"client_live_ttl_sec": 99}"#, &["--client_ttl=10"]);
    assert_eq!(settings.unwrap().config.clients.ttl_sec, 10);
}

#[test]
fn the_port_has_two_names_and_zero_means_the_other() {
    let port = |args: &[&str]| flags(args).unwrap().config.rpc.port;
    assert_eq!(port(&["--port=7"]), 7);
    assert_eq!(port(&["--rpc_port=8"]), 8);
    assert_eq!(port(&["--rpc_port=8", "--port=7"]), 8);
    assert_eq!(port(&["--rpc_port=0"]), 50_051);
    assert_eq!(port(&["--rpc_port=0", "--port=7"]), 7);
    assert_eq!(port(&["--port=0"]), 0);
    assert_eq!(port(&["--rpc_port=1", "--rpc_port=2"]), 2);
}

#[test]
fn a_file_without_a_port_keeps_the_default_port_and_takes_the_flag() {
    let settings = from_file("a.yaml", "cluster_id: x\n", &[]).unwrap();
    assert_eq!(settings.config.rpc.port, 50_051);
    let settings = from_file("a.yaml", "cluster_id: x\n", &["--port=7"]).unwrap();
    assert_eq!(settings.config.rpc.port, 7);
}

#[test]
fn yaml_and_json_say_the_same() {
    let yaml = "# made for the peer\nrpc_port: 6000\ndefault_kv_lease_ttl: 5s\n\
                eviction_ratio: 0.1\nallow_evict_soft_pinned_objects: no\ncluster-id: 007\n";
    let json = r#"{"rpc_port": 6000, "default_kv_lease_ttl": "5s", "eviction_ratio": 0.1,
                   "allow_evict_soft_pinned_objects": false, "cluster-id": "007"}"#;
    let yaml = from_file("a.YML", yaml, &[]).unwrap().config;
    let json = from_file("a.json", json, &[]).unwrap().config;
    assert_eq!(yaml, json);
    assert_eq!((yaml.rpc.port, yaml.leases.default_ttl_ms), (6000, 5_000));
    assert_eq!((yaml.eviction.ratio_ppm, yaml.eviction.allow_soft_pinned), (100_000, false));
    assert_eq!(yaml.storage.cluster_id, "007");
}

#[test]
fn a_file_key_may_be_the_flag_or_the_peers_own_key_but_not_both() {
    let ttl = |text| from_file("a.yaml", text, &[]).map(|settings| settings.config.clients.ttl_sec);
    assert_eq!(ttl("client_ttl: 20"), Ok(20));
    assert_eq!(ttl("client_live_ttl_sec: 30"), Ok(30));
    let refusal = ttl("client_ttl: 20\nclient_live_ttl_sec: 30").unwrap_err();
    assert!(refusal.contains("are one setting; give it once"), "{refusal}");
}

#[test]
fn unknown_file_keys_are_named_in_a_warning() {
    let text = "rpc_port: 1\nraft:\n  colour: red\nconfig_path: other.yaml\n";
    let settings = from_file("a.yaml", text, &[]).unwrap();
    assert_eq!(settings.warnings.len(), 1);
    let warning = &settings.warnings[0];
    assert!(warning.starts_with("unknown settings are ignored: "), "{warning}");
    assert!(
        warning.contains("raft.colour in ") && warning.contains("config_path in "),
        "{warning}"
    );
}

#[test]
fn files_that_say_nothing_are_no_settings() {
    for text in ["", "# nothing\n", "---\n\n"] {
        assert_eq!(from_file("a.yaml", text, &[]).unwrap().config, Config::default(), "{text:?}");
    }
    assert_eq!(from_file("a.json", "{}", &[]).unwrap().config, Config::default());
}

#[test]
fn bad_files_are_refused_with_a_sentence() {
    for (name, text, part) in [
        ("a.yaml", "rpc_port: [1, 2]", "rpc_port: a sequence is not a setting"),
        ("a.yaml", "rpc_port:", "rpc_port: it has no value"),
        ("a.yaml", "a:\n  b: ~", "a.b: it has no value"),
        ("a.yaml", "- 1\n- 2", "it must be a map of settings"),
        ("a.yaml", "just words", "it must be a map of settings"),
        ("a.yaml", "rpc_port: {", "malformed YAML"),
        ("a.yaml", "rpc_port: 1\nrpc_port: 2", "malformed YAML"),
        ("a.json", "{\"rpc_port\": 1", "malformed JSON"),
        ("a.json", "[]", "it must be a map of settings"),
        ("a.json", "{\"rpc_port\": null}", "rpc_port: it has no value"),
        ("a.toml", "rpc_port = 1", "its name must end in .yaml, .yml or .json"),
        ("a", "", "its name must end in .yaml, .yml or .json"),
    ] {
        let refusal = from_file(name, text, &[]).unwrap_err();
        assert!(
            refusal.starts_with("configuration file FILE: ") && refusal.contains(part),
            "{refusal}"
        );
        assert!(!refusal.contains('\n'), "{refusal:?}");
    }
    let refusal = flags(&["--config_path=no/such.yaml"]).unwrap_err();
    assert!(refusal.starts_with("configuration file no/such.yaml: cannot be opened"), "{refusal}");
    let deep = format!("{}1{}", "{\"a\":".repeat(40), "}".repeat(40));
    assert!(from_file("a.json", &deep, &[]).unwrap_err().contains("maps in one another"));
    let large = format!("cluster_id: {}", "x".repeat(2 << 20));
    assert!(from_file("a.yaml", &large, &[]).unwrap_err().contains("larger than 1048576 bytes"));
}

#[test]
fn a_bad_value_is_named_with_its_place_and_its_limit() {
    for (flag, sentence) in [
        (
            "--rpc_port=70000",
            "--rpc_port: \"70000\" is refused; it must be a whole number from 0 to 65535",
        ),
        (
            "--rpc-port=-1",
            "--rpc-port: \"-1\" is refused; it must be a whole number from 0 to 65535",
        ),
        (
            "-eviction_ratio=1.5",
            "-eviction_ratio: \"1.5\" is refused; it must be a number from 0 to 1, such as 0.05",
        ),
        ("--logtostderr=maybe", "--logtostderr: \"maybe\" is refused; it must be true or false"),
        ("--durability=fast", "--durability: \"fast\" is refused; it must be sync or async"),
        (
            "--client_ttl=0",
            "--client_ttl: \"0\" is refused; it must be a whole number from 1 to 31536000",
        ),
        (
            "--rpc_address=",
            "--rpc_address: \"\" is refused; it must be an IP address or a host name",
        ),
        ("--data_dir=", "--data_dir: \"\" is refused; it must be a path"),
    ] {
        assert_eq!(flags(&[flag]).unwrap_err(), sentence);
    }
    let refusal = flags(&["--default_kv_lease_ttl=1.5s"]).unwrap_err();
    assert!(refusal.contains("\"1.5s\" is refused; it must be a duration"), "{refusal}");
    let refusal = flags(&["--memory_allocator=cachelib"]).unwrap_err();
    assert!(refusal.contains("the slab allocator is not offered"), "{refusal}");
    let refusal = from_file("a.yaml", "rpc_port: many", &[]).unwrap_err();
    assert!(refusal.starts_with("rpc_port in FILE: \"many\" is refused"), "{refusal}");
    let refusal = load_with(&[], &[("MOONCAKE_HA_V", "loud")]).unwrap_err();
    assert!(refusal.starts_with("MOONCAKE_HA_V: \"loud\" is refused"), "{refusal}");
    let refusal = flags(&[&format!("--rpc_port={}", "9".repeat(5_000))]).unwrap_err();
    assert!(refusal.len() < 200, "{refusal}");
}

#[test]
fn contradictions_show_both_numbers() {
    for (args, sentence) in [
        (
            &["--default_kv_soft_pin_ttl=2h", "--max_kv_soft_pin_ttl=1h"][..],
            "default_kv_soft_pin_ttl=7200000 is refused; it must be at most max_kv_soft_pin_ttl=3600000 \
             (both in ms)",
        ),
        (
            &["--put_start_discard_timeout_sec=600"],
            "put_start_release_timeout_sec=600 is refused; it must be above \
             put_start_discard_timeout_sec=600",
        ),
        (
            &["--metrics_port=50051"],
            "metrics_port=50051 is refused; it must differ from rpc_port=50051",
        ),
        (
            &["--enable_http_metadata_server", "--http_metadata_server_port=9003"],
            "http_metadata_server_port=9003 is refused; it must differ from metrics_port=9003",
        ),
    ] {
        assert_eq!(flags(args).unwrap_err(), sentence);
    }
    assert!(flags(&["--default_kv_soft_pin_ttl=1h", "--max_kv_soft_pin_ttl=1h"]).is_ok());
    let apart = ["--rpc_address=127.0.0.1", "--metrics_host=127.0.0.2", "--metrics_port=50051"];
    assert!(flags(&apart).is_ok());
}

#[test]
fn files_for_tls_come_together_or_not_at_all() {
    let error = flags(&["--raft_tls_cert=a.pem", "--raft_tls_key=a.key"]).unwrap_err();
    assert_eq!(
        error,
        "raft_tls_cert=a.pem is refused without raft_tls_ca; give all three files or none"
    );
    let error = flags(&["--raft_tls_ca=ca.pem"]).unwrap_err();
    assert!(error.contains("without raft_tls_cert"), "{error}");
    let whole = ["--raft_tls_cert=a.pem", "--raft_tls_key=a.key", "--raft_tls_ca=ca.pem"];
    assert!(flags(&whole).unwrap().config.raft.uses_tls());
    assert!(!flags(&[]).unwrap().config.raft.uses_tls());
}

#[test]
fn flags_about_dynamic_replication_are_stored_and_kept_within_their_limits() {
    let dynamic = |given: &[&str]| flags(given).unwrap().config.dynamic;
    assert_eq!(dynamic(&[]), DynamicConfig::default());
    let given = dynamic(&[
        "--dynamic_replication_mode=enforce",
        "--dynamic_replication_heat_window_seconds=3",
        "--dynamic_replication_admission_qps_threshold=1.5",
        "--dynamic_replication_max_memory_replicas=4",
    ]);
    assert_eq!((given.mode, given.hits(), given.replicas_max), (DynamicMode::Enforce, 5, 4));
    let low = ["--dynamic_replication_heat_window_seconds=0"];
    let low = [low, ["--dynamic_replication_max_memory_replicas=0"]].concat();
    assert_eq!((dynamic(&low).window_sec, dynamic(&low).replicas_max), (1, 1));
    for bad in ["mode=2", "admission_qps_threshold=0", "admission_qps_threshold=-1"] {
        assert!(flags(&[&format!("--dynamic_replication_{bad}")]).is_err(), "{bad}");
    }
}

#[test]
fn flags_about_disks_are_stored_and_kept_within_their_limits() {
    let tiers = |given: &[&str]| flags(given).unwrap().config.tiers;
    assert_eq!(tiers(&[]), TierConfig::default());
    let low = tiers(&["--promotion_admission_threshold=0", "--promotion_max_per_heartbeat=0"]);
    assert_eq!((low.promotion_threshold, low.promotion_per_heartbeat), (1, 1));
    assert_eq!(tiers(&["--promotion_admission_threshold=999"]).promotion_threshold, 255);
    assert_eq!(tiers(&["--offload_cap_ratio=0.25"]).offload_cap_ppm, 250_000);
    for bad in ["--offload_cap_ratio=2", "--offloading_queue_limit=0", "--root_fs_dir"] {
        assert!(flags(&[bad]).is_err(), "{bad}");
    }
    let shared = |given: &[&str]| flags(given).unwrap().config.shared_directory();
    assert_eq!(shared(&["--root_fs_dir=/r/", "--cluster_id=c"]).as_deref(), Some("/r/c"));
    assert_eq!(shared(&["--root_fs_dir=/r", "--cluster_id="]), None);
    assert_eq!(shared(&[]), None);
}

#[test]
fn flags_without_meaning_get_one_line_a_reason() {
    let settings = flags(&["--enable_ha", "--etcd_endpoints=h:2379", "--log_link=x"]).unwrap();
    assert_eq!(settings.warnings.len(), 2, "{:?}", settings.warnings);
    assert!(settings.warnings.iter().any(|line| {
        line.starts_with(
            "accepted without effect: enable_ha, etcd_endpoints (replication is built in",
        )
    }));
    assert!(flags(&["--flagfile=x"]).unwrap_err().contains("--config_path"));
}

#[test]
fn an_even_number_of_peers_is_warned_of_but_not_where_a_node_joins() {
    let four = "--peers=1=a:1,2=b:1,3=c:1,4=d:1";
    let settings = flags(&[four]).unwrap();
    assert!(settings.warnings[0].contains("no more losses than 3"), "{:?}", settings.warnings);
    assert!(flags(&[four, "--join"]).unwrap().warnings.is_empty());
    assert!(flags(&["--peers=1=a:1,2=b:1,3=c:1"]).unwrap().warnings.is_empty());
}

#[test]
fn a_survival_rule_is_one_of_three() {
    use crate::config::RestoreSurvival;
    let settings = flags(&["--restore_survival=lease", "--restore_or_empty"]).unwrap();
    assert_eq!(settings.config.snapshot.survival, RestoreSurvival::Lease);
    assert!(settings.config.snapshot.restore_or_empty);
    assert!(flags(&["--restore_survival=all"]).unwrap_err().contains("rfc, lease or complete"));
}

#[test]
fn a_strategy_that_is_not_offered_places_at_random_with_a_warning() {
    let settings = flags(&["--allocation_strategy=cxl"]).unwrap();
    assert_eq!(settings.config.allocation.strategy, AllocationStrategy::Random);
    assert!(settings.warnings[0].contains("\"cxl\" is not offered"));
    let settings = flags(&["--allocation_strategy=free_ratio_first"]).unwrap();
    assert_eq!(settings.config.allocation.strategy, AllocationStrategy::FreeRatioFirst);
}

#[test]
fn variables_of_a_kubernetes_service_are_no_settings() {
    let env = [
        ("MOONCAKE_HA_PORT", "tcp://10.0.0.1:50051"),
        ("MOONCAKE_HA_PORT_50051_TCP_ADDR", "10.0.0.1"),
        ("MOONCAKE_HA_SERVICE_HOST", "10.0.0.1"),
        ("MOONCAKE_HA_SERVICE_PORT_RPC", "50051"),
        ("MOONCAKE_HA_METRICS_PORT", "tcp://10.0.0.2:9003"),
        ("OTHER", "1"),
    ];
    let settings = load_with(&[], &env).unwrap();
    assert_eq!((settings.config, settings.warnings.len()), (Config::default(), 0));
    let settings = load_with(&[], &[("MOONCAKE_HA_COLOUR", "red")]).unwrap();
    assert_eq!(settings.warnings, ["unknown settings are ignored: MOONCAKE_HA_COLOUR"]);
}

#[test]
fn our_own_flags_are_set() {
    let args = ["--data-dir=d", "--durability", "async", "--soft_pin_sweep_interval=250ms"];
    let config = flags(&args).unwrap().config;
    assert_eq!(config.raft.data_dir, PathBuf::from("d"));
    assert_eq!(config.raft.durability, Durability::Async);
    assert_eq!(config.soft_pins.sweep_interval_ms, 250);
    assert!(flags(&["--soft_pin_sweep_interval=0"]).is_err());
}

proptest::proptest! {
    #[test]
    fn no_command_line_panics(args in proptest::collection::vec("-{0,3}[a-z_=0-9.-]{0,30}", 0..6)) {
        let _ = load(&args, []);
    }

    #[test]
    fn no_value_of_any_flag_panics(at in 0..200_usize, value in "[0-9a-zA-Z.:=,~ -]{0,40}") {
        let all: Vec<_> = crate::config::flags().collect();
        let spec = all[at % all.len()];
        let _ = load(&[format!("--{}={value}", spec.name)], []);
    }
}
