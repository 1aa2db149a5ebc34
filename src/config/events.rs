//! Settings of the events about objects coming and going.

/// Events kept if the queue is said to have no bound.
pub const EVENTS_KEPT_MAX: usize = 1 << 20;

/// Settings of the KV events (behaviour 11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsConfig {
    /// Whether they are wanted.
    pub is_enabled: bool,
    /// Where subscribers connect, as `tcp://address:port`.
    pub bind_endpoint: String,
    /// Name of this cluster's cache in its events.
    pub backend_id: String,
    /// Whether events carry the fields of the older form, too.
    pub emit_legacy_compat: bool,
    /// Whether events carry the object's key.
    pub emit_object_key: bool,
    /// Events kept for slow and late subscribers; 0 means [`EVENTS_KEPT_MAX`].
    pub queue_capacity: u32,
}

impl EventsConfig {
    /// Whether they are published: wanted, with a place and a name.
    pub fn is_published(&self) -> bool {
        self.is_enabled && !self.bind_endpoint.is_empty() && !self.backend_id.is_empty()
    }

    /// Events that are kept.
    pub fn capacity(&self) -> usize {
        match self.queue_capacity {
            0 => EVENTS_KEPT_MAX,
            number => (number as usize).min(EVENTS_KEPT_MAX),
        }
    }

    /// The part of `bind_endpoint` that can be listened on; `*` is every address.
    ///
    /// Errors: it is no `tcp://address:port`.
    pub fn listen(&self) -> Result<String, String> {
        let rest = self.bind_endpoint.strip_prefix("tcp://");
        let parts = rest.and_then(|rest| rest.rsplit_once(':'));
        let is_port = |port: &str| port == "*" || port.parse::<u16>().is_ok();
        match parts {
            Some((host, port)) if !host.is_empty() && is_port(port) => {
                let host = if host == "*" { "0.0.0.0" } else { host };
                let port = if port == "*" { "0" } else { port };
                Ok(format!("{host}:{port}"))
            }
            _ => Err(format!(
                "kv_events_bind_endpoint is {:?}; it must be tcp://ADDRESS:PORT, such as tcp://0.0.0.0:5557",
                self.bind_endpoint
            )),
        }
    }
}

impl Default for EventsConfig {
    fn default() -> Self {
        EventsConfig {
            is_enabled: false,
            bind_endpoint: String::new(),
            backend_id: String::new(),
            emit_legacy_compat: true,
            emit_object_key: true,
            queue_capacity: 65_536,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(endpoint: &str) -> Result<String, String> {
        EventsConfig { bind_endpoint: endpoint.to_owned(), ..EventsConfig::default() }.listen()
    }

    #[test]
    fn an_endpoint_is_a_tcp_address_and_a_port() {
        assert_eq!(listen("tcp://0.0.0.0:5557").as_deref(), Ok("0.0.0.0:5557"));
        assert_eq!(listen("tcp://*:5557").as_deref(), Ok("0.0.0.0:5557"));
        assert_eq!(listen("tcp://[::1]:*").as_deref(), Ok("[::1]:0"));
        for bad in
            ["", "0.0.0.0:5557", "ipc:///x", "tcp://h", "tcp://h:", "tcp://:1", "tcp://h:65536"]
        {
            assert!(listen(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nothing_is_published_without_a_place_or_a_name() {
        let mut events = EventsConfig { is_enabled: true, ..EventsConfig::default() };
        assert!(!events.is_published());
        events.bind_endpoint = "tcp://*:1".into();
        assert!(!events.is_published());
        events.backend_id = "b".into();
        assert!(events.is_published());
        assert_eq!(events.capacity(), 65_536);
        events.queue_capacity = 0;
        assert_eq!(events.capacity(), EVENTS_KEPT_MAX);
    }
}
