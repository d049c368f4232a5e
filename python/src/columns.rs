//! Columns and filters from Python, in the forms that `pagehop/columns.py` and
//! `pagehop/conditions.py` give them.

use pagehop_engine::{Column, ColumnKind, ColumnRows, Comparison, FILTER_DEPTH_MAX, Filter, Payloads, Value};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::errors;
use crate::ids::Ids;

/// A column: its name, its kind, its values (a buffer of int64 or float64, or a list of str, bytes
/// or lists of str), and a buffer with one byte for each row, which is not 0 if the value is
/// missing.
pub(crate) type PyColumn<'py> = (String, String, Bound<'py, PyAny>, Option<PyBuffer<u8>>);

/// The values of one column.
enum Values {
    Bools(Vec<i64>),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Texts(Vec<String>),
    Timestamps(Vec<i64>),
    Tags(Vec<Vec<String>>),
    Uuids(Vec<[u8; 16]>),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Bools(values) | Self::Ints(values) | Self::Timestamps(values) => values.len(),
            Self::Floats(values) => values.len(),
            Self::Texts(values) => values.len(),
            Self::Tags(values) => values.len(),
            Self::Uuids(values) => values.len(),
        }
    }

    fn take(&mut self, row: usize) -> Value {
        match self {
            Self::Bools(values) => Value::Bool(values[row] != 0),
            Self::Ints(values) => Value::Int(values[row]),
            Self::Floats(values) => Value::Float(values[row]),
            Self::Texts(values) => Value::Text(std::mem::take(&mut values[row])),
            Self::Timestamps(values) => Value::Timestamp(values[row]),
            Self::Tags(values) => Value::Tags(std::mem::take(&mut values[row])),
            Self::Uuids(values) => Value::Uuid(values[row]),
        }
    }
}

/// The payload of each row: bytes, or `None`.
pub(crate) type PyPayloads = Vec<Option<Vec<u8>>>;

/// The columns and payloads of rows, if the caller gave any.
pub(crate) fn given(
    py: Python<'_>,
    columns: Option<Vec<PyColumn<'_>>>,
    payload: Option<PyPayloads>,
) -> PyResult<Option<ColumnRows>> {
    let columns = columns.map(|columns| rows(py, columns)).transpose()?;
    Ok(match payload {
        Some(payloads) => Some(columns.unwrap_or_default().with_payloads(payloads)),
        None => columns,
    })
}

/// Payloads as a Python list of bytes or None.
pub(crate) fn payload_list<'py>(py: Python<'py>, payloads: &Payloads) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, payloads.iter().map(|payload| payload.as_ref().map(|bytes| PyBytes::new(py, bytes))))
}

/// Columns from pairs of a name and the name of a kind.
pub(crate) fn of_kinds(py: Python<'_>, columns: Vec<(String, String)>) -> PyResult<Vec<Column>> {
    let column = |(name, kind): (String, String)| Ok(Column { name, kind: ColumnKind::of_name(&kind)? });
    let columns: Result<Vec<Column>, _> = columns.into_iter().map(column).collect();
    columns.map_err(|error| errors::to_python(py, &error))
}

/// The values of rows, from columns. All columns must have the same number of rows.
pub(crate) fn rows(py: Python<'_>, columns: Vec<PyColumn<'_>>) -> PyResult<ColumnRows> {
    let mut named = Vec::with_capacity(columns.len());
    let mut data: Vec<(Values, Option<Vec<u8>>)> = Vec::with_capacity(columns.len());
    for (name, kind, values, missing) in columns {
        let kind = ColumnKind::of_name(&kind).map_err(|error| errors::to_python(py, &error))?;
        let ints = || values.extract::<PyBuffer<i64>>()?.to_vec(py);
        let values = match kind {
            ColumnKind::Bool => Values::Bools(ints()?),
            ColumnKind::Int => Values::Ints(ints()?),
            ColumnKind::Timestamp => Values::Timestamps(ints()?),
            ColumnKind::Float => Values::Floats(values.extract::<PyBuffer<f64>>()?.to_vec(py)?),
            ColumnKind::Text => Values::Texts(values.extract()?),
            ColumnKind::Tags => Values::Tags(values.extract()?),
            ColumnKind::Uuid => Values::Uuids(values.extract()?),
        };
        let missing = missing.map(|missing| missing.to_vec(py)).transpose()?;
        named.push(Column { name, kind });
        data.push((values, missing));
    }
    let count = data.first().map_or(0, |(values, _)| values.len());
    if data.iter().any(|(values, missing)| {
        values.len() != count || missing.as_ref().is_some_and(|missing| missing.len() != count)
    }) {
        return Err(errors::argument(py, "columns have different numbers of rows"));
    }
    let packed = py.detach(|| {
        let mut rows = ColumnRows::new(named)?;
        let mut row_values = Vec::with_capacity(data.len());
        for row in 0..count {
            row_values.clear();
            row_values.extend(data.iter_mut().map(|(values, missing)| match missing {
                Some(missing) if missing[row] != 0 => Value::Null,
                _ => values.take(row),
            }));
            rows.push(&row_values)?;
        }
        Ok(rows)
    });
    packed.map_err(|error| errors::to_python(py, &error))
}

/// A filter, from a tuple whose first item names its form. `depth` counts the filters around it.
pub(crate) fn filter(py: Python<'_>, form: &Bound<'_, PyAny>, depth: usize) -> PyResult<Filter> {
    if depth == FILTER_DEPTH_MAX {
        return Err(errors::argument(py, format!("a filter is nested more than {FILTER_DEPTH_MAX} deep")));
    }
    let form = form.cast::<PyTuple>()?;
    let word: String = form.get_item(0)?.extract()?;
    let part = |at: usize| form.get_item(at);
    let parts = || -> PyResult<Vec<Filter>> {
        part(1)?.cast::<PyList>()?.iter().map(|part| filter(py, &part, depth + 1)).collect()
    };
    Ok(match word.as_str() {
        "and" => Filter::And(parts()?),
        "or" => Filter::Or(parts()?),
        "not" => Filter::Not(Box::new(filter(py, &part(1)?, depth + 1)?)),
        "null" => Filter::IsNull(part(1)?.extract()?),
        "ids" => match Ids::of(&part(1)?)? {
            Ids::Int(ids) => Filter::Ids(ids),
            Ids::Text(texts) => Filter::TextIds(texts),
        },
        "in" => {
            let values: PyResult<Vec<Value>> =
                part(2)?.cast::<PyList>()?.iter().map(|value| self::value(py, &value)).collect();
            Filter::In(part(1)?.extract()?, values?)
        }
        "any" => Filter::ContainsAny(part(1)?.extract()?, part(2)?.extract()?),
        "all" => Filter::ContainsAll(part(1)?.extract()?, part(2)?.extract()?),
        "compare" => {
            let sign: String = part(2)?.extract()?;
            Filter::Compare(part(1)?.extract()?, comparison(py, &sign)?, value(py, &part(3)?)?)
        }
        "text" => {
            let text: String = part(1)?.extract()?;
            text.parse().map_err(|error| errors::to_python(py, &error))?
        }
        other => return Err(errors::argument(py, format!("'{other}' is not a form of a filter"))),
    })
}

fn comparison(py: Python<'_>, sign: &str) -> PyResult<Comparison> {
    Ok(match sign {
        "=" => Comparison::Equal,
        "<>" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        other => return Err(errors::argument(py, format!("'{other}' is not a comparison"))),
    })
}

fn value(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    Ok(if value.is_none() {
        Value::Null
    } else if value.is_instance_of::<PyBool>() {
        Value::Bool(value.extract()?)
    } else if value.is_instance_of::<PyInt>() {
        // An integer beyond 64 bits is compared as a float.
        match value.extract() {
            Ok(int) => Value::Int(int),
            Err(_) => Value::Float(value.extract()?),
        }
    } else if value.is_instance_of::<PyFloat>() {
        Value::Float(value.extract()?)
    } else if value.is_instance_of::<PyString>() {
        Value::Text(value.extract()?)
    } else if let Ok((word, time)) = value.extract::<(String, i64)>()
        && word == "timestamp"
    {
        Value::Timestamp(time)
    } else if let Ok((word, bytes)) = value.extract::<(String, [u8; 16])>()
        && word == "uuid"
    {
        Value::Uuid(bytes)
    } else {
        return Err(errors::argument(py, format!("{value} is not a value of a column")));
    })
}
