//! What the operating system says of this process. Linux only; elsewhere the values are missing.

use super::text::Values;

/// Memory and open files.
pub(super) fn collect(values: &mut Values) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for (field, name) in [
        ("VmRSS:", "process_resident_memory_bytes"),
        ("VmHWM:", "process_resident_memory_peak_bytes"),
    ] {
        if let Some(bytes) = kilobytes(&status, field) {
            values.number(name, bytes);
        }
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        // One of them is the listing itself.
        values.number("process_open_fds", (open.count() as u64).saturating_sub(1));
    }
}

/// The bytes of a field such as `VmRSS:  1234 kB`.
fn kilobytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_read_in_bytes() {
        let status = "Name:\tx\nVmHWM:\t    2 kB\nVmRSS:\t  17 kB\n";
        assert_eq!(kilobytes(status, "VmRSS:"), Some(17 * 1_024));
        assert_eq!(kilobytes(status, "VmSwap:"), None);
    }
}
