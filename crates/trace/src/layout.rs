//! A checked schema: every record type as columns that cover each of its bytes once. The writer, the reader and the
//! block coder index records by it alone, so that neither a hostile trace nor a malformed ring record can make them
//! read beyond a record.

use super::format::{MAX_RECORD, MAX_TYPES};
use profinfer_schema::{FieldLayout, FieldType, HEADER_SIZE, MAX_FIELDS, RecordType, Schema};

/// A run of equal-sized values at a fixed place of every record of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    /// Bytes from the start of the record.
    pub(super) offset: usize,
    /// Bytes of a value: 1, 2, 4 or 8.
    pub(super) width: usize,
    /// Values in each record.
    pub(super) count: usize,
}

/// The tail of a type whose last field is a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tail {
    /// Where the `u32` count of elements is.
    pub(super) count_at: usize,
    /// Bytes of a value.
    pub(super) width: usize,
    /// Values in each element.
    pub(super) per_element: usize,
    /// The most elements there are.
    pub(super) max: usize,
}

impl Tail {
    /// Bytes of an element.
    pub(super) fn element_size(&self) -> usize {
        self.width * self.per_element
    }
}

/// One record type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of the fixed part.
    pub(super) size: usize,
    /// What covers the fixed part, in order, without the type, `tid`, `seq`, `start` and a list's count, which a
    /// block stores separately.
    pub(super) columns: Vec<Column>,
    /// The variable part.
    pub(super) tail: Option<Tail>,
}

impl Layout {
    /// The whole length of the record that `bytes` start with; `None` where they are too few or its list too long.
    pub(super) fn record_size(&self, bytes: &[u8]) -> Option<usize> {
        let elements = match self.tail {
            None => 0,
            Some(tail) => {
                let count = bytes.get(tail.count_at..tail.count_at + 4)?;
                let count = u32::from_le_bytes([count[0], count[1], count[2], count[3]]) as usize;
                if count > tail.max {
                    return None;
                }
                count * tail.element_size()
            }
        };
        let size = self.size + elements;
        (bytes.len() >= size).then_some(size)
    }
}

/// The layouts of a schema's record types, in its order.
///
/// # Errors
/// One sentence, where the schema is not one that a plan makes.
pub(super) fn layouts(schema: &Schema) -> Result<Vec<Layout>, String> {
    if schema.records.len() > MAX_TYPES {
        return Err(format!("there are {} record types, more than {MAX_TYPES}", schema.records.len()));
    }
    schema
        .records
        .iter()
        .map(|record| layout(record).map_err(|e| format!("record type `{}`: {e}", record.name)))
        .collect()
}

fn layout(record: &RecordType) -> Result<Layout, String> {
    let size = record.size as usize;
    if record.size < HEADER_SIZE || size > MAX_RECORD || !size.is_multiple_of(8) {
        return Err(format!("its size, {size} bytes, is not a multiple of 8 from {HEADER_SIZE} to {MAX_RECORD}"));
    }
    if record.fields.len() > MAX_FIELDS {
        return Err(format!("it has {} fields, more than {MAX_FIELDS}", record.fields.len()));
    }
    let mut columns = vec![
        Column { offset: 2, width: 2, count: 1 },
        Column { offset: 4, width: 2, count: 1 },
        Column { offset: 6, width: 2, count: 1 },
        Column { offset: 24, width: 8, count: 1 },
    ];
    let mut tail = None;
    let mut covered = HEADER_SIZE as usize;
    let mut by_offset: Vec<(usize, &FieldLayout)> = record.fields.iter().enumerate().collect();
    by_offset.sort_by_key(|(index, field)| (field.offset, *index));
    for (index, field) in by_offset {
        let offset = field.offset as usize;
        let (width, count) =
            shape(&field.ty).ok_or_else(|| format!("the type of field `{}` is invalid", field.name))?;
        if count == 0 {
            continue;
        }
        if offset < covered || offset + width * count > size {
            return Err(format!("field `{}` overlaps another field or exceeds the record", field.name));
        }
        columns.extend(gap(covered, offset));
        covered = offset + width * count;
        if let FieldType::List(element, max) = &field.ty {
            if index + 1 != record.fields.len() {
                return Err(format!("field `{}` is a list but not the last field", field.name));
            }
            tail = Some(
                list_tail(offset, element, *max as usize, size)
                    .ok_or_else(|| format!("field `{}` is too long a list", field.name))?,
            );
            columns.push(Column { offset: offset + 4, width: 4, count: 1 });
        } else {
            columns.push(Column { offset, width, count });
        }
    }
    columns.extend(gap(covered, size));
    Ok(Layout { size, columns, tail })
}

/// The bytes between fields: padding, stored so that a record is read back unchanged.
fn gap(from: usize, to: usize) -> Option<Column> {
    (from < to).then_some(Column { offset: from, width: 1, count: to - from })
}

fn list_tail(count_at: usize, element: &FieldType, max: usize, fixed: usize) -> Option<Tail> {
    let (width, per_element) = shape(element).filter(|(_, count)| *count > 0)?;
    let tail = Tail { count_at, width, per_element, max };
    let longest = max.checked_mul(tail.element_size())?.checked_add(fixed)?;
    (longest <= MAX_RECORD && !matches!(element, FieldType::List(..))).then_some(tail)
}

/// Bytes of a value and the number of values of a field's fixed part; `None` where there is no such type.
fn shape(ty: &FieldType) -> Option<(usize, usize)> {
    match ty {
        FieldType::Int(n) | FieldType::Uint(n) if matches!(n, 1 | 2 | 4 | 8) => Some((*n as usize, 1)),
        FieldType::Float(n) if matches!(n, 4 | 8) => Some((*n as usize, 1)),
        FieldType::Int(_) | FieldType::Uint(_) | FieldType::Float(_) => None,
        FieldType::Bool => Some((1, 1)),
        FieldType::Enum(_) => Some((4, 1)),
        FieldType::Pointer | FieldType::Object(_) | FieldType::Duration | FieldType::Counter | FieldType::List(..) => {
            Some((8, 1))
        }
        FieldType::Scaled => Some((2, 1)),
        FieldType::Text(n) | FieldType::Hex(n) => bounded(1, *n as usize),
        FieldType::Match(_) => Some((1, 0)),
        FieldType::Array(of, n) => match (of.as_ref(), shape(of)?) {
            (FieldType::List(..) | FieldType::Match(_), _) => None,
            (_, (width, count)) => bounded(width, count.checked_mul(*n as usize)?),
        },
    }
}

fn bounded(width: usize, count: usize) -> Option<(usize, usize)> {
    (count <= MAX_RECORD).then_some((width, count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_schema::RecordKind;

    fn record(size: u32, fields: Vec<(u32, FieldType)>) -> Schema {
        let fields = fields.into_iter().map(|(offset, ty)| FieldLayout { name: format!("at_{offset}"), offset, ty });
        let record =
            RecordType { name: "r".into(), kind: RecordKind::Span, role: None, size, fields: fields.collect() };
        Schema { records: vec![record], ..Schema::default() }
    }

    #[test]
    fn columns_cover_every_byte_once() {
        let list = FieldType::List(Box::new(FieldType::Int(4)), 10);
        let schema =
            record(72, vec![(32, FieldType::Int(4)), (40, FieldType::Text(5)), (48, FieldType::Pointer), (56, list)]);
        let layout = &layouts(&schema).unwrap()[0];
        // Kept apart: the type, tid and seq, start, the list's count.
        let mut covered = vec![0..2, 8..16, 16..24, 56..60];
        covered.extend(layout.columns.iter().map(|c| c.offset..c.offset + c.width * c.count));
        covered.sort_by_key(|range| range.start);
        assert_eq!(covered.first().unwrap().start, 0);
        assert_eq!(covered.last().unwrap().end, 72);
        assert!(covered.windows(2).all(|pair| pair[0].end == pair[1].start), "{covered:?}");
    }

    #[test]
    fn schemas_that_no_plan_makes_are_refused() {
        let list = |element, max| FieldType::List(Box::new(element), max);
        let array = |of, n| FieldType::Array(Box::new(of), n);
        for (size, fields) in [
            (24, vec![]),
            (36, vec![]),
            (1 << 30, vec![]),
            (40, vec![(30, FieldType::Int(4))]),
            (40, vec![(36, FieldType::Int(8))]),
            (40, vec![(u32::MAX, FieldType::Int(8))]),
            (40, vec![(32, FieldType::Int(3))]),
            (40, vec![(32, FieldType::Int(8)), (36, FieldType::Int(4))]),
            (40, vec![(32, FieldType::Text(u32::MAX))]),
            (40, vec![(32, array(array(FieldType::Int(8), u32::MAX), u32::MAX))]),
            (48, vec![(32, list(FieldType::Int(4), 3)), (40, FieldType::Int(8))]),
            (40, vec![(32, list(FieldType::Int(4), u32::MAX))]),
            (40, vec![(32, list(list(FieldType::Int(4), 2), 2))]),
            (40, vec![(32, list(FieldType::Match(1), 2))]),
            (40, (0..17).map(|_| (32, FieldType::Match(1))).collect()),
        ] {
            assert!(layouts(&record(size, fields.clone())).is_err(), "{size} {fields:?}");
        }
    }
}
