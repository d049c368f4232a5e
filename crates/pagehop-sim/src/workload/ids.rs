//! Ids of rows in the form that an index has. The model has numbers. If ids are texts, each number
//! has its own text.

use pagehop_engine::{
    AddReport, Change, ColumnRows, Cursor, DeleteReport, Error, Filter, Found, IdKind, Index, OnProgress, Pages,
    PagesMut, Payloads, RowParts, SearchResult,
};

/// The text of a number. Texts have different lengths, up to 1,015 bytes.
pub fn text(id: u64) -> String {
    match id % 5 {
        0 => id.to_string(),
        1 => format!("doc-{id}/para-{}", id % 10).replace("para-", "\u{e9}-"),
        2 => format!("{}{id}", "long ".repeat((id / 5 % 200) as usize)),
        _ => format!("\0{id:032x}"),
    }
}

/// The number of a text; `None` if no number has this text.
pub fn number(given: &str) -> Option<u64> {
    let decimal = |text: &str| text.parse().ok();
    let id = if let Some(hex) = given.strip_prefix('\0') {
        u64::from_str_radix(hex, 16).ok()
    } else if let Some(rest) = given.strip_prefix("doc-") {
        decimal(rest.split('/').next()?)
    } else {
        decimal(given.rsplit(' ').next()?)
    };
    id.filter(|id| text(*id) == given)
}

/// The texts of numbers.
pub fn texts(ids: &[u64]) -> Vec<String> {
    ids.iter().map(|id| text(*id)).collect()
}

/// The same filter, with texts instead of numbers.
pub fn with_texts(filter: &Filter) -> Filter {
    let all = |parts: &[Filter]| parts.iter().map(with_texts).collect();
    match filter {
        Filter::Ids(ids) => Filter::TextIds(texts(ids)),
        Filter::Not(part) => Filter::Not(Box::new(with_texts(part))),
        Filter::And(parts) => Filter::And(all(parts)),
        Filter::Or(parts) => Filter::Or(all(parts)),
        other => other.clone(),
    }
}

/// Whether the ids of an index are texts.
///
/// # Errors
///
/// Those of [`Index::info`].
pub fn are_texts<P: Pages>(index: &Index<P>) -> Result<bool, Error> {
    Ok(index.info()?.id_kind == IdKind::Text)
}

fn numbers(texts: &[String]) -> Vec<u64> {
    // A text without a number is in no version of the model.
    texts.iter().map(|text| number(text).unwrap_or_else(|| panic!("no row has the id {text:?}"))).collect()
}

/// The ids that a search found; `None` if one of its rows was replaced or deleted since.
pub(super) fn found<P: Pages>(index: &Index<P>, result: &SearchResult) -> Result<Option<Vec<u64>>, Error> {
    Ok(match are_texts(index)? {
        true => index.text_ids_of(result)?.map(|texts| numbers(&texts)),
        false => Some(result.hits.iter().map(|hit| hit.row_id).collect()),
    })
}

/// The result of a search, and the ids that it found.
pub(super) fn search<P: Pages>(
    index: &Index<P>,
    search: impl FnMut() -> Result<SearchResult, Error>,
) -> Result<(SearchResult, Vec<u64>), Error> {
    let parts = RowParts { text_ids: are_texts(index)?, ..RowParts::default() };
    let (result, read) = index.search_and_read(parts, search)?;
    let ids = match read.text_ids {
        Some(texts) => numbers(&texts),
        None => result.hits.iter().map(|hit| hit.row_id).collect(),
    };
    Ok((result, ids))
}

/// The id of a row that a cursor found.
pub(super) fn of_cursor<P: Pages>(cursor: &mut Cursor<'_, P>, hit: &Found, are_texts: bool) -> Result<u64, Error> {
    Ok(if are_texts { numbers(&[cursor.text_id(hit)?])[0] } else { hit.row_id })
}

/// Every id of the index, in order.
pub(super) fn all<P: Pages>(index: &Index<P>) -> Result<Vec<u64>, Error> {
    let (mut all, mut next) = (Vec::new(), Some(0));
    while let Some(first) = next {
        if are_texts(index)? {
            let (texts, more) = index.text_ids(first, 50)?;
            all.extend(numbers(&texts));
            next = more;
        } else {
            let ids = index.ids(first, 50)?;
            next = ids.last().and_then(|last| last.checked_add(1));
            all.extend(ids);
        }
    }
    all.sort_unstable();
    Ok(all)
}

pub(super) fn vectors<P: Pages>(index: &Index<P>, ids: &[u64]) -> Result<Vec<f32>, Error> {
    if are_texts(index)? { index.vectors(&texts(ids)) } else { index.vectors(ids) }
}

pub(super) fn payloads<P: Pages>(index: &Index<P>, ids: &[u64]) -> Result<Payloads, Error> {
    if are_texts(index)? { index.payloads(&texts(ids)) } else { index.payloads(ids) }
}

pub(super) fn add<W: PagesMut>(
    change: &mut Change<'_, W>,
    are_texts: bool,
    ids: &[u64],
    (components, columns): (&[f32], Option<&ColumnRows>),
    progress: OnProgress<'_>,
) -> Result<AddReport, Error> {
    match are_texts {
        true => change.add(&texts(ids), components, columns, progress),
        false => change.add(ids, components, columns, progress),
    }
}

pub(super) fn update<W: PagesMut>(
    change: &mut Change<'_, W>,
    are_texts: bool,
    ids: &[u64],
    columns: &ColumnRows,
) -> Result<u64, Error> {
    if are_texts { change.update_columns(&texts(ids), columns) } else { change.update_columns(ids, columns) }
}

pub(super) fn delete<W: PagesMut>(
    change: &mut Change<'_, W>,
    are_texts: bool,
    ids: &[u64],
) -> Result<DeleteReport, Error> {
    if are_texts { change.delete(&texts(ids)).map(|report| of_texts(&report)) } else { change.delete(ids) }
}

/// The report, with numbers instead of texts.
pub(super) fn of_texts(report: &DeleteReport<String>) -> DeleteReport {
    DeleteReport { deleted: report.deleted, unknown: numbers(&report.unknown) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_text_of_its_own() {
        for id in (0..3000).chain([u64::MAX, u64::MAX - 1, 1 << 63]) {
            let text = text(id);
            assert!((1..=1024).contains(&text.len()));
            assert_eq!(number(&text), Some(id), "{text:?}");
        }
        assert_eq!(number("doc-7/x"), None);
    }
}
