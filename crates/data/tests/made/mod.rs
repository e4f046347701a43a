//! Small files for tests, made in memory.
#![allow(dead_code)]

use std::io::{Cursor, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

pub fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// Row groups of `rows` rows, pages of fewer.
pub fn parquet(batch: &RecordBatch, rows: usize) -> Vec<u8> {
    let level = ZstdLevel::try_new(1).unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(rows))
        .set_data_page_row_count_limit(1000)
        .set_write_batch_size(500)
        .set_compression(Compression::ZSTD(level))
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes
}

/// Record batches of `rows` rows.
pub fn arrow_file(batch: &RecordBatch, rows: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    slices(batch, rows).for_each(|part| writer.write(&part).unwrap());
    writer.finish().unwrap();
    drop(writer);
    bytes
}

pub fn compressed_arrow_file(batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let options = arrow_ipc::writer::IpcWriteOptions::default()
        .try_with_compression(Some(arrow_ipc::CompressionType::LZ4_FRAME))
        .unwrap();
    let mut writer = arrow_ipc::writer::FileWriter::try_new_with_options(&mut bytes, &batch.schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    bytes
}

pub fn arrow_stream(batch: &RecordBatch, rows: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    slices(batch, rows).for_each(|part| writer.write(&part).unwrap());
    writer.finish().unwrap();
    drop(writer);
    bytes
}

fn slices(batch: &RecordBatch, rows: usize) -> impl Iterator<Item = RecordBatch> {
    (0..batch.num_rows()).step_by(rows).map(move |at| batch.slice(at, rows.min(batch.num_rows() - at)))
}

pub fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

pub fn npz(arrays: &[(&str, Vec<u8>)], deflate: bool) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let method = if deflate { zip::CompressionMethod::Deflated } else { zip::CompressionMethod::Stored };
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    for (name, bytes) in arrays {
        let name = if name.contains('.') { name.to_string() } else { format!("{name}.npy") };
        writer.start_file(name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}
