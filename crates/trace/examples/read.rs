//! Prints each record of a trace and whether any was lost:
//! `cargo run -p profinfer-trace --example read -- run.pfi`

use profinfer_trace::{Item, TraceReader};
use std::{env, error::Error, fs::File};

fn main() -> Result<(), Box<dyn Error>> {
    let file = env::args().nth(1).ok_or("usage: read TRACE")?;
    let mut reader = TraceReader::new(File::open(file)?).map_err(|problems| format!("{problems:?}"))?;
    let mut lost = 0;
    while let Some(item) = reader.next() {
        match item {
            Item::Record(record) => {
                let fields: Vec<_> = record.fields().map(|(name, value)| format!("{name}={value}")).collect();
                println!("{:>16} ns {} {}", record.header().start, record.kind().name, fields.join(" "));
            }
            // Totals since the start: the last ones count.
            Item::Losses(losses) => lost = losses.iter().map(|loss| loss.count).sum(),
            _ => {}
        }
    }
    println!("{} records, {lost} losses", reader.meta().records);
    Ok(())
}
