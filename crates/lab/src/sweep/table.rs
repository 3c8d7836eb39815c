//! Results as Parquet: a row for each scheme, a column for each figure.
//!
//! Columns of objects within a result are called as in the table (`up.lost`). A figure is a double,
//! whatever it counts, so that files of all points have the same columns; what cannot be had is
//! null.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use serde_json::Value;

use super::plan::{CODE, Kind, Plan, Task};

/// A column: one value for each row, none where it is null.
enum Column {
    Count(Vec<i64>),
    Number(Vec<Option<f64>>),
    Flag(Vec<Option<bool>>),
    Text(Vec<Option<ByteArray>>),
}

/// Writes the results of a task.
///
/// # Errors
/// When they cannot be written as a table.
pub(super) fn parquet(plan: &Plan, task: Task, results: &[Value]) -> Result<Vec<u8>, String> {
    let rows: Vec<BTreeMap<String, &Value>> = results.iter().map(flat).collect();
    let columns = columns(plan, task, &rows);
    encoded(plan, &columns).map_err(|error| format!("write results as Parquet: {error}"))
}

/// Reads what [`parquet()`] wrote: a row for each scheme, figures by the names of their columns.
///
/// # Errors
/// When it is no such file.
pub(super) fn rows(file: File) -> Result<Vec<Value>, ParquetError> {
    let reader = SerializedFileReader::new(file)?;
    let row = |row: Result<Row, ParquetError>| {
        let row = row?;
        let cell = |(name, field): (&String, &Field)| {
            let value = match field {
                Field::Double(number) => Value::from(*number),
                Field::Long(number) => Value::from(*number),
                Field::Bool(flag) => Value::from(*flag),
                Field::Str(text) => Value::from(text.as_str()),
                _ => Value::Null,
            };
            (name.clone(), value)
        };
        Ok(Value::Object(row.get_column_iter().map(cell).collect()))
    };
    reader.get_row_iter(None)?.map(row).collect()
}

/// Returns every figure of a result by its name, those within objects as `up.lost`.
fn flat(result: &Value) -> BTreeMap<String, &Value> {
    fn add<'v>(prefix: &str, value: &'v Value, row: &mut BTreeMap<String, &'v Value>) {
        let Value::Object(object) = value else {
            row.insert(prefix.to_owned(), value);
            return;
        };
        for (key, value) in object {
            let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            add(&name, value, row);
        }
    }
    let mut row = BTreeMap::new();
    add("", result, &mut row);
    row
}

/// Returns the columns in their order: whose they are, what varied, figures.
fn columns(plan: &Plan, task: Task, rows: &[BTreeMap<String, &Value>]) -> Vec<(String, Column)> {
    let text = |text: &str| Column::Text(vec![Some(ByteArray::from(text)); rows.len()]);
    let count =
        |count: u64| Column::Count(vec![i64::try_from(count).unwrap_or(i64::MAX); rows.len()]);
    let mut columns = vec![
        ("sweep".to_owned(), text(plan.hash())),
        ("code".to_owned(), text(CODE)),
        ("point".to_owned(), count(task.point)),
        ("seed".to_owned(), count(task.seed)),
    ];
    let column = |name: &str, kind: Kind| {
        let values = rows.iter().map(|row| row.get(name).copied().unwrap_or(&Value::Null));
        let text = |value: &Value| match value {
            Value::Null => None,
            Value::String(text) => Some(ByteArray::from(text.as_str())),
            other => Some(ByteArray::from(other.to_string().as_str())),
        };
        match kind {
            Kind::Number => Column::Number(values.map(Value::as_f64).collect()),
            Kind::Flag => Column::Flag(values.map(Value::as_bool).collect()),
            Kind::Text => Column::Text(values.map(text).collect()),
        }
    };
    let mut kinds = vec![("scheme".to_owned(), Kind::Text)];
    kinds.extend(plan.kinds());
    let mut names: Vec<&String> = rows.iter().flat_map(BTreeMap::keys).collect();
    names.sort();
    names.dedup();
    for name in names {
        if !kinds.iter().any(|(known, _)| known == name) {
            let of_name = rows.iter().filter_map(|row| row.get(name).copied());
            kinds.push((name.clone(), kind(of_name)));
        }
    }
    columns.extend(kinds.into_iter().map(|(name, kind)| {
        let column = column(&name, kind);
        (name, column)
    }));
    columns
}

/// Returns what a figure is: what is null everywhere is a number that could not be had.
fn kind<'v>(values: impl Iterator<Item = &'v Value>) -> Kind {
    let there: Vec<&Value> = values.filter(|value| !value.is_null()).collect();
    if there.iter().all(|value| value.is_number()) {
        Kind::Number
    } else if there.iter().all(|value| value.is_boolean()) {
        Kind::Flag
    } else {
        Kind::Text
    }
}

fn encoded(plan: &Plan, columns: &[(String, Column)]) -> Result<Vec<u8>, ParquetError> {
    let fields: Vec<Arc<Type>> =
        columns.iter().map(|(name, column)| column.field(name)).collect::<Result<_, _>>()?;
    let schema = Arc::new(Type::group_type_builder("figures").with_fields(fields).build()?);
    let about = [("fulmar.sweep", plan.hash()), ("fulmar.code", CODE)];
    let about = about.map(|(key, value)| KeyValue::new(key.to_owned(), value.to_owned()));
    // A few rows: neither compressing nor a dictionary would make them smaller.
    let properties = WriterProperties::builder()
        .set_created_by(concat!("fulmar-lab ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(about.to_vec()))
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false)
        .build();
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for (_, column) in columns {
        let mut writer =
            group.next_column()?.ok_or_else(|| ParquetError::EOF("a column".to_owned()))?;
        column.write(&mut writer)?;
        writer.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(bytes)
}

impl Column {
    fn field(&self, name: &str) -> Result<Arc<Type>, ParquetError> {
        let (physical, repetition) = match self {
            Self::Count(_) => (PhysicalType::INT64, Repetition::REQUIRED),
            Self::Number(_) => (PhysicalType::DOUBLE, Repetition::OPTIONAL),
            Self::Flag(_) => (PhysicalType::BOOLEAN, Repetition::OPTIONAL),
            Self::Text(_) => (PhysicalType::BYTE_ARRAY, Repetition::OPTIONAL),
        };
        let field = Type::primitive_type_builder(name, physical).with_repetition(repetition);
        let field = match self {
            Self::Text(_) => field
                .with_logical_type(Some(LogicalType::String))
                .with_converted_type(ConvertedType::UTF8),
            _ => field,
        };
        Ok(Arc::new(field.build()?))
    }

    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        match self {
            Self::Count(values) => {
                writer.typed::<Int64Type>().write_batch(values, None, None)?;
            }
            Self::Number(values) => {
                let (there, levels) = split(values);
                writer.typed::<DoubleType>().write_batch(&there, Some(&levels), None)?;
            }
            Self::Flag(values) => {
                let (there, levels) = split(values);
                writer.typed::<BoolType>().write_batch(&there, Some(&levels), None)?;
            }
            Self::Text(values) => {
                let (there, levels) = split(values);
                writer.typed::<ByteArrayType>().write_batch(&there, Some(&levels), None)?;
            }
        }
        Ok(())
    }
}

/// Returns the values that are there, and for each row whether one is (1) or not (0).
fn split<T: Clone>(values: &[Option<T>]) -> (Vec<T>, Vec<i16>) {
    let levels = values.iter().map(|value| i16::from(value.is_some())).collect();
    (values.iter().flatten().cloned().collect(), levels)
}
