//! Rows of a small trace, and what the formats make of hostile texts.

use super::*;
use profinfer_analysis::testing::{Put, Records};
use profinfer_analysis::{Completeness, Rules, Statistics, Timeline, Visitor};
use profinfer_trace::Meta;

use profinfer_schema::Origin;
use std::sync::{Arc, Mutex};

/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Memory {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// What a table of such a trace is, as text.
fn exported(format: ExportFormat, wanted: &str, name: &str) -> String {
    let mut r = Records::default();
    r.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
    let described = [
        ("address", Put::Int(0xa)),
        ("op", Put::Text("MUL_MAT")),
        ("name", Put::Text(name)),
        ("shape", Put::List(&[64, 2, 1, 1])),
    ];
    r.push("tensor", 1, (1, 1), &described);
    r.push("operator", 1, (1020, 1050), &[("node", Put::Int(0xa)), ("waiting", Put::Int(10))]);
    r.push("graph", 1, (1010, 1060), &[("backend", Put::Text("CPU"))]);
    r.push("step", 1, (1000, 1100), &[("tokens", Put::Int(1))]);
    let origin = Origin { monotonic_ns: 900, engine: "toy".into(), ..Origin::default() };
    let file = Memory::default();
    let open = |table: &'static Table| -> io::Result<Option<Box<dyn Write + Send>>> {
        Ok((table.name == wanted).then(|| Box::new(file.clone()) as Box<dyn Write + Send>))
    };
    let mut exporter = Exporter::new(format, &origin, open).unwrap();
    let mut timeline = Timeline::new(&r.schema, Rules::default(), 100);
    r.records.iter().for_each(|record| timeline.record(record, &mut exporter));
    timeline.finish(&mut exporter as &mut dyn Visitor);
    let mut meta = Meta::default();
    meta.origin = origin;
    let completeness = Completeness::judge(&meta, timeline.findings(), &Statistics::default());
    exporter.finish(&meta, &completeness).unwrap();
    file.text()
}

#[test]
fn rows_have_a_cell_a_column_and_nothing_for_what_was_not_recorded() {
    let csv = exported(ExportFormat::Csv, "operators", "up-0");
    let expected = "step,phase,operator,graph,backend,op,name,pattern,covers,covers_pattern,layer,dtype,shape,start_ns,\
        elapsed_ns,work_ns,waiting_ns,lanes,flops,bytes,flops_bound,bytes_bound,layer_inferred\n\
        1,decode,0,0,CPU,MUL_MAT,up-0,up-*,,,,,64x2x1x1,120,20,20,10,1,,,false,false,false\n";
    assert_eq!(csv, expected);
    let line = exported(ExportFormat::Ndjson, "operators", "up-0");
    let row: serde_json::Value = serde_json::from_str(line.trim_end()).unwrap();
    assert_eq!(
        (&row["layer"], &row["work_ns"], &row["flops"]),
        (&serde_json::Value::Null, &20.into(), &serde_json::Value::Null)
    );
    assert_eq!(row.as_object().unwrap().len(), TABLES[tables::OPERATORS].columns.len());
    let steps = exported(ExportFormat::Csv, "steps", "up-0");
    assert!(steps.ends_with("\n1,decode,100,1,100,100,1,true,whole,,1,1,1,50,20,10,,\n"), "{steps}");
    let lanes = exported(ExportFormat::Csv, "lanes", "up-0");
    assert!(lanes.ends_with("\n1,decode,0,0,1,120,30,20,10,,,,,,,\n"), "{lanes}");
}

#[test]
fn no_text_breaks_a_row() {
    // A spreadsheet would compute the fourth.
    for (name, cell) in [("a,b", "a,b"), ("a\"b", "a\"b"), ("a\nb", "a\nb"), ("=1+1", "'=1+1"), ("é\t", "é\t")] {
        let csv = exported(ExportFormat::Csv, "operators", name);
        let rows: Vec<csv::StringRecord> =
            csv::Reader::from_reader(csv.as_bytes()).records().map(Result::unwrap).collect();
        assert_eq!((rows.len(), &rows[0][6]), (1, cell), "{csv}");
        let line = exported(ExportFormat::Ndjson, "operators", name);
        assert_eq!(line.lines().count(), 1);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap()["name"], name);
    }
}

#[test]
fn every_column_is_documented() {
    let page = include_str!("../../../../docs/export.md");
    for table in &TABLES {
        let heading = format!("### `{}`\n", table.name);
        let section = page.split_once(&heading).unwrap_or_else(|| panic!("{heading} in docs/export.md")).1;
        let section = section.split("\n##").next().unwrap();
        // A row may describe several columns: its first cell names them, in their order.
        let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split("` |").next());
        let documented: Vec<&str> = cells.flat_map(|cell| cell.split("`, `")).collect();
        let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        assert_eq!(documented, columns, "{}", table.name);
    }
}

/// A row that has this number wherever a number has to be.
fn row_of(table: &Table, number: i64) -> Vec<Cell<'static>> {
    let cell = |column: &Column| match column.kind {
        _ if column.nullable => Cell::Null,
        ColumnKind::Int => Cell::Int(number),
        ColumnKind::Float => Cell::Float(0.5),
        ColumnKind::Bool => Cell::Bool(true),
        ColumnKind::Text => Cell::Text("text"),
    };
    table.columns.iter().map(cell).collect()
}

/// Takes so many bytes, and then meets this.
struct Ending(usize, io::ErrorKind);

impl Write for Ending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(self.1)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A closed pipe is no error to who writes to it, and a full disk is named.
#[test]
fn what_writing_meets_stays_what_it_is() {
    use clap::ValueEnum;
    let table = &TABLES[tables::OPERATORS];
    let cells = row_of(table, 1);
    for format in ExportFormat::value_variants() {
        for kind in [io::ErrorKind::BrokenPipe, io::ErrorKind::StorageFull] {
            for bytes in [0, 1 << 10] {
                let written = format.begin(table, Box::new(Ending(bytes, kind))).and_then(|mut writer| {
                    (0..200_000).try_for_each(|_| writer.row(&cells))?;
                    writer.finish()
                });
                assert_eq!(written.map_err(|error| error.kind()), Err(kind), "{format:?} after {bytes} bytes");
            }
        }
    }
}

#[cfg(feature = "columnar")]
#[test]
fn columns_hold_what_rows_do() {
    use arrow_array::cast::AsArray;
    use arrow_array::{Array, types::Int64Type};
    let file = tempfile::tempfile().unwrap();
    for format in [ExportFormat::Arrow, ExportFormat::Parquet] {
        use std::io::{Seek, SeekFrom};
        let mut file = file.try_clone().unwrap();
        file.set_len(0).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let table = &TABLES[tables::STEPS];
        let mut writer = format.begin(table, Box::new(file.try_clone().unwrap())).unwrap();
        let count = 100_000_i64;
        for number in 0..count {
            writer.row(&row_of(table, number)).unwrap();
        }
        writer.finish().unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let batches: Vec<arrow_array::RecordBatch> = if format == ExportFormat::Arrow {
            arrow_ipc::reader::FileReader::try_new(file, None).unwrap().map(Result::unwrap).collect()
        } else {
            let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            reader.build().unwrap().map(Result::unwrap).collect()
        };
        let sum: i64 = batches.iter().flat_map(|b| b["step"].as_primitive::<Int64Type>().values().to_vec()).sum();
        assert_eq!(sum, count * (count - 1) / 2);
        assert!(batches.iter().all(|batch| batch["tokens"].null_count() == batch.num_rows()));
    }
}
