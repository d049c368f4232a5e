//! The bytes of measurements: where a calibration and an audit are on the meta page.

use crate::Error;
use crate::calibration::{CalibratedK, Calibration, KS, RECALLS, Setting};
use crate::options::SEARCH_LIST_MAX;
use crate::page::PageId;
use crate::page::fields::{Fields, FieldsMut};
use crate::reports::Audit;

/// Where the calibration is on the meta page, and its length.
const CALIBRATION_AT: usize = 256;
const ENTRY_BYTES: usize = 8 + RECALLS.len() * 12;
const CALIBRATION_BYTES: usize = 24 + KS.len() * ENTRY_BYTES;
/// Offsets of `far`, of the audit, and of the number of real queries.
const FAR_AT: usize = CALIBRATION_AT + CALIBRATION_BYTES;
const AUDIT_AT: usize = FAR_AT + 4;
const AUDIT_BYTES: usize = 40;
const QUERIES_AT: usize = AUDIT_AT + AUDIT_BYTES;
#[cfg(test)]
const QUERIES_BYTES: usize = 4;

/// Writes a calibration to the meta page; other bytes stay.
pub(crate) fn write(calibration: &Calibration, body: &mut [u8]) {
    let mut fields = FieldsMut::at(body, CALIBRATION_AT);
    fields.u32(calibration.samples);
    fields.u32(calibration.entries.len() as u32);
    fields.u64(calibration.rows);
    fields.u64(calibration.changes);
    for entry in &calibration.entries {
        fields.u32(entry.k as u32);
        fields.f32(entry.best);
        for setting in &entry.settings {
            debug_assert!(setting.is_none_or(is_possible), "{setting:?} could not be read");
            let none = Setting { slack: f32::NAN, search_list: 0, half_interval: 0.0 };
            let Setting { slack, search_list, half_interval } = setting.unwrap_or(none);
            fields.f32(slack);
            fields.u32(search_list as u32);
            fields.f32(half_interval);
        }
    }
    debug_assert!(fields.position() <= CALIBRATION_AT + CALIBRATION_BYTES);
    FieldsMut::at(body, FAR_AT).f32(if calibration.far.is_finite() { calibration.far } else { 0.0 });
    // The number of queries if they were a user's, 0 if they were rows.
    FieldsMut::at(body, QUERIES_AT).u32(if calibration.by_queries { calibration.samples } else { 0 });
}

/// Reads the calibration from the meta page; `None` if there is none.
pub(crate) fn read(body: &[u8]) -> Result<Option<Calibration>, Error> {
    let mut fields = Fields::at(body, CALIBRATION_AT);
    let (samples, entries) = (fields.u32(), fields.u32() as usize);
    if samples == 0 {
        return Ok(None);
    }
    let (rows, changes) = (fields.u64(), fields.u64());
    if !(1..=KS.len()).contains(&entries) {
        let what = format!("the calibration has {entries} values of k, it must have 1 to {}", KS.len());
        return Err(Error::corrupt(PageId(0), what));
    }
    let entries: Vec<_> = (0..entries).map(|_| read_k(&mut fields)).collect::<Result<_, _>>()?;
    if !entries.is_sorted_by(|a, b| a.k < b.k) {
        return Err(Error::corrupt(PageId(0), "the calibrated values of k are not ascending"));
    }
    let far = Fields::at(body, FAR_AT).f32();
    let far = if far > 0.0 { far } else { f32::INFINITY };
    let by_queries = Fields::at(body, QUERIES_AT).u32() == samples;
    Ok(Some(Calibration { rows, changes, samples, by_queries, far, entries }))
}

/// Writes an audit to the meta page; other bytes stay.
pub(crate) fn write_audit(audit: &Audit, body: &mut [u8]) {
    let mut fields = FieldsMut::at(body, AUDIT_AT);
    fields.u32(audit.samples);
    fields.u32(audit.k as u32);
    fields.u64(audit.rows);
    fields.u64(audit.changes);
    for number in [audit.recall, audit.half_interval, audit.target.unwrap_or(0.0)] {
        fields.f32(number);
    }
}

/// Reads the audit from the meta page; `None` if there is none.
pub(crate) fn read_audit(body: &[u8]) -> Result<Option<Audit>, Error> {
    let mut fields = Fields::at(body, AUDIT_AT);
    let (samples, k) = (fields.u32(), fields.u32() as usize);
    if samples == 0 {
        return Ok(None);
    }
    let (rows, changes) = (fields.u64(), fields.u64());
    let [recall, half_interval, target] = std::array::from_fn(|_| fields.f32());
    if [recall, half_interval, target].iter().any(|share| !(0.0..=1.0).contains(share)) || k == 0 {
        return Err(Error::corrupt(PageId(0), format!("an audit found a recall of {recall} at {k}")));
    }
    let target = (target > 0.0).then_some(target);
    Ok(Some(Audit { k, recall, half_interval, target, samples, rows, changes }))
}

/// Whether a search can have this setting.
fn is_possible(setting: Setting) -> bool {
    setting.slack >= 0.0 && (1..=SEARCH_LIST_MAX).contains(&setting.search_list)
}

fn read_k(fields: &mut Fields<'_>) -> Result<CalibratedK, Error> {
    let k = fields.u32() as usize;
    let best = fields.f32();
    let mut settings = [None; RECALLS.len()];
    for setting in &mut settings {
        let slack = fields.f32();
        let search_list = fields.u32() as usize;
        let half_interval = fields.f32();
        *setting = (!slack.is_nan()).then_some(Setting { slack, search_list, half_interval });
        if !setting.is_none_or(is_possible) {
            let what = format!("the calibration has a slack of {slack} with a list of {search_list}");
            return Err(Error::corrupt(PageId(0), what));
        }
    }
    if !(1..=SEARCH_LIST_MAX).contains(&k) || !(0.0..=1.0).contains(&best) {
        return Err(Error::corrupt(PageId(0), format!("the calibration has a recall of {best} for k = {k}")));
    }
    Ok(CalibratedK { k, best, settings })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::tests::calibration;
    use crate::page::BODY_BYTES;

    #[test]
    fn what_is_written_is_read() {
        let mut body = vec![0; BODY_BYTES];
        assert_eq!(read(&body).expect("none"), None);
        write(&calibration(), &mut body);
        assert_eq!(read(&body).expect("one"), Some(calibration()));
        assert_eq!(read_audit(&body).expect("none"), None);
        let audit = Audit {
            k: 10,
            recall: 0.9,
            half_interval: 0.01,
            target: Some(0.95),
            samples: 11,
            rows: 12,
            changes: 13,
        };
        write_audit(&audit, &mut body);
        assert_eq!(read_audit(&body).expect("one"), Some(audit));
        let end = QUERIES_AT + QUERIES_BYTES;
        assert!(body[..CALIBRATION_AT].iter().chain(&body[end..]).all(|b| *b == 0));
        for at in CALIBRATION_AT..end {
            let mut damaged = body.clone();
            damaged[at] = 0xFF;
            if let Ok(Some(read)) = read(&damaged) {
                let _ = read.plan(10, 0.9);
            }
            let _ = read_audit(&damaged);
        }
    }
}
