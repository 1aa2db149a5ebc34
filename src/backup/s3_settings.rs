//! How a bucket is reached: the peer's variables, with the peer's defaults (snapshot format 2.3).
#![cfg_attr(not(feature = "s3"), expect(dead_code, reason = "read by the S3 store only"))]

use std::time::Duration;

use super::BackupError;
use crate::config::Secret;

/// The variable that names the bucket.
pub const BUCKET_VARIABLE: &str = "MOONCAKE_AWS_BUCKET_NAME";
/// Region for stores that do not care.
const REGION_DEFAULT: &str = "us-east-1";
/// Greatest timeout; longer is as good as none.
const TIMEOUT_MS_MAX: u64 = 3_600_000;

/// How to reach a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Settings {
    pub bucket: String,
    pub prefix: String,
    pub region: String,
    /// `http(s)://host[:port]`; `None` for Amazon's own of the region.
    pub endpoint: Option<String>,
    /// Key id and secret; `None` sends unsigned requests.
    pub credentials: Option<(String, Secret)>,
    /// Whether the bucket is part of the host name instead of the path.
    pub is_virtual_addressing: bool,
    pub connect_timeout: Duration,
    pub request_timeout: Duration,
}

impl S3Settings {
    /// The settings for a bucket from variables, which `get` looks up.
    ///
    /// Errors: a variable has no value of its form, or half of the credentials is missing.
    pub fn read(
        bucket: &str,
        prefix: &str,
        get: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, BackupError> {
        let is_https = switch(get, "MOONCAKE_AWS_USE_HTTPS", true)?;
        let endpoint = get("MOONCAKE_AWS_S3_ENDPOINT").map(|endpoint| {
            let scheme = if is_https { "https" } else { "http" };
            match endpoint.contains("://") {
                true => endpoint,
                false => format!("{scheme}://{endpoint}"),
            }
        });
        let (id, secret) =
            (get("MOONCAKE_AWS_ACCESS_KEY_ID"), get("MOONCAKE_AWS_SECRET_ACCESS_KEY"));
        let credentials = match (id, secret) {
            (Some(id), Some(secret)) => Some((id, Secret::new(secret))),
            (None, None) => None,
            _ => {
                return Err(BackupError(
                    "set both MOONCAKE_AWS_ACCESS_KEY_ID and MOONCAKE_AWS_SECRET_ACCESS_KEY, or neither"
                        .into(),
                ));
            }
        };
        Ok(S3Settings {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            region: get("MOONCAKE_AWS_REGION").unwrap_or_else(|| REGION_DEFAULT.to_owned()),
            endpoint,
            credentials,
            is_virtual_addressing: switch(get, "MOONCAKE_AWS_USE_VIRTUAL_ADDRESSING", true)?,
            connect_timeout: timeout(get, "MOONCAKE_AWS_CONNECT_TIMEOUT_MS", 10_000)?,
            request_timeout: timeout(get, "MOONCAKE_AWS_REQUEST_TIMEOUT_MS", 30_000)?,
        })
    }
}

fn switch(
    get: &dyn Fn(&str) -> Option<String>,
    name: &str,
    default: bool,
) -> Result<bool, BackupError> {
    let Some(text) = get(name) else { return Ok(default) };
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(BackupError(format!("{name}={text:?} is refused; it must be true or false"))),
    }
}

fn timeout(
    get: &dyn Fn(&str) -> Option<String>,
    name: &str,
    default_ms: u64,
) -> Result<Duration, BackupError> {
    let Some(text) = get(name) else { return Ok(Duration::from_millis(default_ms)) };
    let ms = text.parse().ok().filter(|ms| (1..=TIMEOUT_MS_MAX).contains(ms));
    ms.map(Duration::from_millis).ok_or_else(|| {
        BackupError(format!(
            "{name}={text:?} is refused; it must be 1 to {TIMEOUT_MS_MAX} milliseconds"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<S3Settings, BackupError> {
        let get = |name: &str| {
            let found = pairs.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        S3Settings::read("b", "p", &get)
    }

    #[test]
    fn the_peers_variables_have_the_peers_defaults() {
        let settings = read(&[]).unwrap();
        assert_eq!((settings.region.as_str(), settings.endpoint), ("us-east-1", None));
        assert!(settings.is_virtual_addressing && settings.credentials.is_none());
        assert_eq!(settings.connect_timeout, Duration::from_secs(10));
        assert_eq!(settings.request_timeout, Duration::from_secs(30));
    }

    #[test]
    fn an_endpoint_without_scheme_takes_the_one_that_is_set() {
        let endpoint = ("MOONCAKE_AWS_S3_ENDPOINT", "h:9000");
        assert_eq!(read(&[endpoint]).unwrap().endpoint.unwrap(), "https://h:9000");
        let plain = ("MOONCAKE_AWS_USE_HTTPS", "false");
        assert_eq!(read(&[endpoint, plain]).unwrap().endpoint.unwrap(), "http://h:9000");
        let full = ("MOONCAKE_AWS_S3_ENDPOINT", "http://h");
        assert_eq!(read(&[full]).unwrap().endpoint.unwrap(), "http://h");
    }

    #[test]
    fn values_of_a_wrong_form_are_refused_by_name() {
        for pair in [
            ("MOONCAKE_AWS_ACCESS_KEY_ID", "id"),
            ("MOONCAKE_AWS_SECRET_ACCESS_KEY", "secret"),
            ("MOONCAKE_AWS_USE_HTTPS", "maybe"),
            ("MOONCAKE_AWS_USE_VIRTUAL_ADDRESSING", "2"),
            ("MOONCAKE_AWS_CONNECT_TIMEOUT_MS", "0"),
            ("MOONCAKE_AWS_REQUEST_TIMEOUT_MS", "1.5"),
        ] {
            let refused = read(&[pair]).unwrap_err().to_string();
            assert!(refused.contains(pair.0), "{refused}");
        }
    }
}
