//! Columns as an Arrow table that other libraries take over without a copy.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int8Array, Int64Array, RecordBatch, RecordBatchIterator,
    StringArray, UInt8Array, UInt32Array, UInt64Array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use fulmar_lab::api::{Messages, Packets};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::lab::RunError;

/// A table of columns of equal length (Arrow).
///
/// pyarrow.table(t), polars.DataFrame(t) and pandas (by pyarrow) take it over without a copy, by
/// the PyCapsule interface of Arrow.
#[pyclass(frozen, module = "fulmar._native")]
pub(crate) struct Table(RecordBatch);

#[pymethods]
impl Table {
    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<fulmar.Table: {} rows of {}>", self.0.num_rows(), self.column_names().join(", "))
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Bytes that the columns take in memory.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.get_array_memory_size()
    }

    /// Hands the table over as an Arrow C stream; `requested_schema` is not heeded, as the
    /// interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let schema = self.0.schema();
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

impl Table {
    /// Takes over the columns of messages.
    pub(crate) fn of_messages(of: Messages) -> PyResult<Self> {
        Self::new(vec![
            ("stream", names(of.stream, &Messages::STREAMS.map(str::to_owned))?),
            ("flow", Arc::new(UInt8Array::from(of.flow))),
            ("direction", names(of.direction, &Messages::DIRECTIONS.map(str::to_owned))?),
            ("sequence", Arc::new(UInt32Array::from(of.sequence))),
            ("bytes", Arc::new(UInt32Array::from(of.bytes))),
            ("sent_ns", times(of.sent_ns)),
            ("delivered_ns", times(of.delivered_ns)),
        ])
    }

    /// Takes over the columns of packets.
    pub(crate) fn of_packets(of: Packets) -> PyResult<Self> {
        Self::new(vec![
            ("number", Arc::new(UInt64Array::from(of.number))),
            ("entry_ns", Arc::new(Int64Array::from(of.entry_ns))),
            ("link", names(of.link, &of.links)?),
            ("sender", names(of.sender, &of.hosts)?),
            ("receiver", names(of.receiver, &of.hosts)?),
            ("bytes", Arc::new(UInt32Array::from(of.bytes))),
            ("fate", names(of.fate, &of.fates)?),
            ("arrival_ns", times(of.arrival_ns)),
            ("copies", Arc::new(UInt8Array::from(of.copies))),
        ])
    }

    fn new(columns: Vec<(&str, ArrayRef)>) -> PyResult<Self> {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| {
            let is_nullable = name.ends_with("_ns") && name != "entry_ns";
            (name, column, is_nullable)
        }))
        .map(Self)
        .map_err(|error| RunError::new_err(format!("make a table: {error}")))
    }
}

/// Makes a column of names of their places in a list.
fn names(places: Vec<i8>, names: &[String]) -> PyResult<ArrayRef> {
    let values = StringArray::from_iter_values(names);
    let column = DictionaryArray::<Int8Type>::try_new(Int8Array::from(places), Arc::new(values));
    let column =
        column.map_err(|error| RunError::new_err(format!("make a column of names: {error}")))?;
    Ok(Arc::new(column))
}

/// Makes a column of times, null where there is none.
fn times(values: Vec<Option<i64>>) -> ArrayRef {
    let there = BooleanBuffer::collect_bool(values.len(), |place| values[place].is_some());
    let values: ScalarBuffer<i64> =
        values.into_iter().map(Option::unwrap_or_default).collect::<Vec<i64>>().into();
    Arc::new(Int64Array::new(values, Some(NullBuffer::new(there))))
}
