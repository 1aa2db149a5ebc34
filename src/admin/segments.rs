//! Pages about segments, in the peer's forms (behaviour 13.1).
//!
//! Two numbers are printed as the peer prints them: a size in GiB with six significant digits and a share in
//! scientific notation. Names are found decoded and as written; the peer does only the latter.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::{RawQuery, State as Shared};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::answer::{self, Refused};
use super::{Door, query};
use crate::model::{ErrorCode, SegmentStatus};
use crate::state::segment_table::Mounted;

/// `GET /get_all_segments`: names of the segments that receive allocations.
pub async fn get_all_segments(Shared(door): Shared<Arc<Door>>) -> Result<Response, Refused> {
    let (node, _) = door.leading().await?;
    let names = node.look(|state| {
        let open = state.segments().in_mount_order().filter(|m| m.status == SegmentStatus::Ok);
        open.map(|mounted| format!("{}\n", mounted.segment.name)).collect::<String>()
    });
    Ok(answer::text(StatusCode::OK, names))
}

/// `GET /get_segments_detail`: every segment, whatever its status.
pub async fn get_segments_detail(Shared(door): Shared<Arc<Door>>) -> Result<Response, Refused> {
    let (node, _) = door.leading().await?;
    let details = node.look(|state| {
        state.segments().in_mount_order().map(detail).collect::<Result<Vec<String>, _>>()
    });
    let details = details.map_err(|_| ErrorCode::InternalError)?;
    let total = details.len();
    let body = format!("{{\"total_segments\":{total},\"segments\":[{}]}}", details.join(","));
    Ok(answer::json_text(body))
}

/// One segment as JSON, by hand because of the two numbers.
fn detail(mounted: &Mounted) -> serde_json::Result<String> {
    let segment = &mounted.segment;
    let text = |text: &str| serde_json::to_string(text);
    let (used, capacity) = (mounted.allocator.used_bytes(), segment.size);
    let mut json = String::new();
    let _ = write!(
        json,
        "{{\"segment_name\":{},\"segment_id\":\"{}\",\"client_id\":\"{}\"",
        text(&segment.name)?,
        segment.id,
        mounted.owner,
    );
    let _ = write!(
        json,
        ",\"base_address\":\"{:#x}\",\"size_bytes\":{capacity},\"size_human\":\"{} GiB\"",
        segment.base,
        six_digits(capacity as f64 / f64::from(1 << 30)),
    );
    let _ = write!(
        json,
        ",\"te_endpoint\":{},\"protocol\":{},\"status\":\"{}\"",
        text(&segment.endpoint)?,
        text(&segment.protocol)?,
        mounted.status.name(),
    );
    let percent = if capacity == 0 { 0.0 } else { used as f64 / capacity as f64 * 100.0 };
    let _ = write!(
        json,
        ",\"allocator_used_bytes\":{used},\"allocator_capacity_bytes\":{capacity},\
         \"allocator_usage_percent\":{percent:E}}}",
    );
    Ok(json)
}

/// At most six significant digits, no trailing zeros; an exponent below 1e-4 and from 1e6 on.
fn six_digits(number: f64) -> String {
    let scientific = format!("{number:.5e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return trimmed(&format!("{number:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.unsigned_abs())
}

/// `GET /query_segment?segment=S`: bytes in use and in all of the segments of a name.
pub async fn query_segment(
    Shared(door): Shared<Arc<Door>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let raw = query::raw(query.as_deref(), "segment").unwrap_or_default();
    let (node, _) = door.leading().await?;
    let found = node.look(|state| {
        names(raw).into_iter().find_map(|name| {
            let open = state.segments().named(&name).filter(|(_, m)| m.status == SegmentStatus::Ok);
            let usage = open.map(|(_, m)| (m.allocator.used_bytes(), m.segment.size));
            let (used, size) = usage.reduce(|a, b| (a.0 + b.0, a.1 + b.1))?;
            Some(format!("{name}\nUsed(bytes): {used}\nCapacity(bytes) : {size}\n"))
        })
    });
    Ok(match found {
        Some(page) => answer::text(StatusCode::OK, page),
        None => answer::text(StatusCode::INTERNAL_SERVER_ERROR, "Failed to query segment"),
    })
}

fn names(raw: &str) -> Vec<String> {
    let is_text = |bytes: Vec<u8>| String::from_utf8(bytes).ok();
    query::candidates(raw).into_iter().filter_map(is_text).collect()
}

#[derive(Serialize)]
struct StatusPage {
    success: bool,
    segment: String,
    status: i32,
    status_name: &'static str,
    error_code: i32,
    error_message: &'static str,
}

/// `GET /api/v1/segments/status?segment=S`.
pub async fn status(
    Shared(door): Shared<Arc<Door>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let raw = query::raw(query.as_deref(), "segment").filter(|raw| !raw.is_empty());
    let raw = raw.ok_or_else(|| Refused::Bad("Missing segment query parameter".into()))?;
    let (node, _) = door.leading().await?;
    let found = node.look(|state| {
        names(raw).into_iter().find_map(|name| {
            let all = state.segments().named(&name);
            let status =
                all.map(|(_, mounted)| mounted.status).filter(|s| s.is_readable()).last()?;
            Some((name, status))
        })
    });
    let (segment, status) = found.ok_or(ErrorCode::SegmentNotFound)?;
    let body = StatusPage {
        success: true,
        segment,
        status: status.number(),
        status_name: status.name(),
        error_code: 0,
        error_message: "",
    };
    Ok(answer::json(StatusCode::OK, &body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_printed_with_six_significant_digits() {
        let cases = [
            (0.0, "0"),
            (0.031_25, "0.03125"),
            (1.0, "1"),
            (512.0, "512"),
            (1.234_567_8, "1.23457"),
            (999_999.9, "1e+06"),
            (0.000_061_035_156_25, "6.10352e-05"),
            (1_048_576.0, "1.04858e+06"),
        ];
        for (number, text) in cases {
            assert_eq!(six_digits(number), text);
        }
    }

    #[test]
    fn shares_are_printed_in_scientific_notation() {
        assert_eq!(format!("{:E}", 0.0), "0E0");
        assert_eq!(format!("{:E}", 76_100.0 / 33_554_432.0 * 100.0), "2.2679567337036133E-1");
        assert_eq!(format!("{:E}", 100.0), "1E2");
    }
}
