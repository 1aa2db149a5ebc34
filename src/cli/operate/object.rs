//! `mooncake-ha object`: look at objects one by one or in lists, and remove them.

use clap::{Args, Subcommand};
use serde_json::Value as Json;

use super::table::table;
use super::{
    Failed, Target, bytes, encoded, exit_codes, field, key, number, paged, parameter, rows, word,
};

const EXAMPLES: &str = concat!(
    "Examples:
  mooncake-ha object list --prefix model-a/ --limit 20
  mooncake-ha object get model-a/layer-3 --admin node2:9003
  mooncake-ha object get %FFkey --encoded --json
  mooncake-ha object remove model-a/layer-3 model-a/layer-4 --force

",
    exit_codes!()
);

/// Look at objects, or remove them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct ObjectArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Everything that is known of an object; grants no read lease
    Get {
        /// Its key
        key: String,
        #[command(flatten)]
        scope: Scope,
    },
    /// Objects, in no order that means anything
    List {
        /// Only those of this tenant
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// Only those whose key begins with this
        #[arg(long, value_name = "TEXT")]
        prefix: Option<String>,
        /// At most so many
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// Remove objects, unless somebody may be reading them
    Remove {
        /// Their keys
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
        #[command(flatten)]
        scope: Scope,
        /// Also under a read lease: a reader may then see other bytes
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Args)]
struct Scope {
    /// The tenant whose object is meant
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// The key is percent-encoded, as listings show keys that are not text
    #[arg(long)]
    encoded: bool,
}

impl Scope {
    fn query(&self, key: &str) -> String {
        let key = if self.encoded { key.replace('&', "%26") } else { encoded(key) };
        format!("key={key}{}", parameter("tenant", self.tenant.as_deref()))
    }
}

/// Runs the command; answers the exit code.
pub(super) fn command(args: &ObjectArgs) -> u8 {
    let target = &args.target;
    match &args.action {
        Action::Get { key, scope } => {
            let page = target.get(&format!("/api/v1/object?{}", scope.query(key)));
            target.finish(page, object)
        }
        Action::List { tenant, prefix, limit } => {
            let path = format!(
                "/api/v1/objects?{}{}",
                parameter("tenant", tenant.as_deref()).trim_start_matches('&'),
                parameter("prefix", prefix.as_deref())
            );
            target.finish(paged(target, &path, "objects", *limit), list)
        }
        Action::Remove { keys, scope, force } => remove(target, keys, scope, *force),
    }
}

/// Removes key by key; what was removed before a refusal stays removed, and is said.
fn remove(target: &Target, keys: &[String], scope: &Scope, force: bool) -> u8 {
    let force = if force { "&force=true" } else { "" };
    let mut removed = Vec::new();
    let mut failed = None;
    for key in keys {
        let path = format!("/api/v1/object?{}{force}", scope.query(key));
        match target.expect("DELETE", &path, b"") {
            Ok(page) => removed.push(page),
            Err(Failed::Refused(why)) => {
                super::super::complain(&format!("{}: {why}", super::shown(key)));
                failed.get_or_insert(super::EXIT_FAILURE);
            }
            Err(error) => return target.finish(Err(error), |_| String::new()),
        }
    }
    let page = serde_json::json!({ "success": failed.is_none(), "removed": removed });
    let printed = target.finish(Ok(page), |page| {
        rows(page, "removed").iter().map(|row| format!("removed {}\n", word(row, "key"))).collect()
    });
    failed.unwrap_or(printed)
}

fn object(page: &Json) -> String {
    let pin = field(page, "soft_pin");
    let flags = [("is_readable", "readable"), ("is_processing", "being written")];
    let flags = flags.iter().filter(|(name, _)| field(page, name) == &Json::Bool(true));
    let flags: Vec<&str> = flags.map(|(_, text)| *text).collect();
    let mut text = format!(
        "key: {}\ntenant: {}\nsize: {}\nstate: {}\nwriter: {}\nput started: {}\nlease until: {}\n\
         hard pin: {}\nsoft pin: {}, until {}\nchecksum: {}\n",
        key(page),
        word(page, "tenant"),
        bytes(number(page, "size")),
        if flags.is_empty() { "not readable".to_owned() } else { flags.join(", ") },
        word(page, "writer"),
        word(page, "put_start_ms"),
        word(page, "lease_ms"),
        word(page, "hard_pin"),
        word(pin, "state"),
        word(pin, "deadline_ms"),
        word(page, "checksum"),
    );
    let replicas: Vec<[String; 6]> = rows(page, "replicas")
        .iter()
        .map(|replica| {
            let place = ["segment", "path", "client_id"];
            let place = place.iter().find(|name| !field(replica, name).is_null());
            [
                word(replica, "id"),
                word(replica, "kind"),
                word(replica, "status"),
                word(replica, "is_reachable"),
                word(replica, "references"),
                place.map_or("-".to_owned(), |name| word(replica, name)),
            ]
        })
        .collect();
    text.push_str(&table(["replica", "kind", "status", "reachable", "in use", "place"], &replicas));
    text
}

fn list(page: &Json) -> String {
    let objects: Vec<[String; 6]> = rows(page, "objects")
        .iter()
        .map(|row| {
            let copies = (number(row, "memory_replicas"), number(row, "disk_replicas"));
            let pin = match (field(row, "hard_pin") == &Json::Bool(true), word(row, "soft_pin_ms"))
            {
                (true, _) => "hard".to_owned(),
                (false, until) => until,
            };
            [
                word(row, "tenant"),
                bytes(number(row, "size")),
                word(row, "is_readable"),
                format!("{}+{}", copies.0, copies.1),
                pin,
                key(row),
            ]
        })
        .collect();
    let head = ["tenant", "size", "readable", "mem+disk", "pinned until", "key"];
    let mut text = table(head, &objects);
    if !field(page, "next").is_null() {
        text.push_str("and more; raise --limit or narrow --prefix\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_key_is_encoded_unless_it_is_already() {
        let scope = |encoded| Scope { tenant: Some("a b".into()), encoded };
        assert_eq!(scope(false).query("a/%+"), "key=a%2F%25%2B&tenant=a%20b");
        assert_eq!(scope(true).query("%FF&x"), "key=%FF%26x&tenant=a%20b");
    }

    #[test]
    fn an_object_is_told_with_its_replicas() {
        let page = json!({
            "tenant": "default", "key": "k", "size": 2048, "is_readable": true,
            "is_processing": false, "writer": "7-9", "put_start_ms": 5, "lease_ms": 6,
            "hard_pin": false, "checksum": null,
            "soft_pin": {"state": "active", "deadline_ms": 9},
            "replicas": [{"id": 1, "kind": "memory", "status": "COMPLETE", "is_reachable": true,
                          "references": 0, "segment": "h:1"}],
        });
        let text = object(&page);
        assert!(text.starts_with("key: k\ntenant: default\nsize: 2.0 KiB\nstate: readable\n"));
        assert!(text.contains("soft pin: active, until 9\nchecksum: -\n"), "{text}");
        assert!(text.ends_with("1        memory  COMPLETE  yes        0       h:1\n"), "{text}");
        let listed = json!({"objects": [{"tenant": "t", "size": 1, "is_readable": false,
            "memory_replicas": 1, "disk_replicas": 0, "hard_pin": true, "key": "k"}], "next": "7"});
        let text = list(&listed);
        assert!(text.contains("t       1 B   no        1+0       hard          k\n"), "{text}");
        assert!(text.ends_with("and more; raise --limit or narrow --prefix\n"));
    }
}
