//! Columns of text, each as wide as its widest cell.

/// Lines of a table with a head; the last column is not padded.
pub(super) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let head = head.map(str::to_owned);
    let widths: Vec<usize> = (0..N)
        .map(|column| {
            let cells = std::iter::once(&head).chain(rows).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line: Vec<String> = cells.collect();
        format!("{}\n", line.join("  ").trim_end())
    };
    std::iter::once(&head).chain(rows).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "10"], ["longer", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(table(["key", "size"], &rows), "key     size\na       10\nlonger\n");
        assert_eq!(table(["key", "size"], &[]), "key  size\n");
    }
}
