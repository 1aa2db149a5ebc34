//! `rpc_interface`: the IPv4 address of a network interface.
//!
//! Guards that a name that resolves to nothing stops the start with a sentence, instead of listening
//! somewhere else.

use crate::config::RpcConfig;

/// Replaces the listen address by that of the interface, if one is named.
///
/// Errors: the sentence for the operator, if the interface is unknown or has no IPv4 address.
pub(super) fn resolve(rpc: &mut RpcConfig) -> Result<(), String> {
    if rpc.interface.is_empty() {
        return Ok(());
    }
    let name = &rpc.interface;
    let addresses = nix::ifaddrs::getifaddrs()
        .map_err(|error| format!("--rpc_interface: interfaces cannot be listed: {error}"))?;
    let ipv4 = addresses
        .filter(|one| one.interface_name == *name)
        .find_map(|one| Some(one.address?.as_sockaddr_in()?.ip()));
    let refusal = || {
        format!(
            "--rpc_interface: {name:?} is refused; it must be an interface that has an IPv4 address"
        )
    };
    rpc.address = ipv4.ok_or_else(refusal)?.to_string();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_an_address_and_a_made_up_one_has_none() {
        let mut rpc = RpcConfig { interface: "lo".into(), ..RpcConfig::default() };
        resolve(&mut rpc).unwrap();
        assert_eq!(rpc.address, "127.0.0.1");
        rpc.interface = "nosuch0".into();
        assert!(resolve(&mut rpc).unwrap_err().contains("\"nosuch0\""));
    }
}
