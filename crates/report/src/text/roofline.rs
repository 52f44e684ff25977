//! The machine's limits, as a line of a report and as a table.

use crate::numbers::table::{Align, Table};
use crate::numbers::units::{day, rate, share};
use crate::report::Report;
use Align::{Left, Right};
use profinfer_diagnostics::printable;
use profinfer_schema::{Figure, Level, Quantity, Roofline};

/// What a person compares with first, of all processors: bandwidth of memory, and the peaks.
pub fn limits_line(roofline: &Roofline) -> String {
    let memory = Some(Level::Memory);
    let wanted = [
        (Quantity::Read, memory),
        (Quantity::Write, memory),
        (Quantity::Copy, memory),
        (Quantity::Fp32, None),
        (Quantity::Int8, None),
        (Quantity::Int16, None),
    ];
    let found: Vec<&Figure> =
        wanted.iter().filter_map(|(quantity, level)| roofline.of_all_cpus(*quantity, *level)).collect();
    let parts: Vec<String> = found.iter().map(|f| format!("{} {}", f.quantity.name(), limit(f, f.best))).collect();
    let cpus = found.iter().map(|figure| figure.cpus).max().unwrap_or(0);
    let cpus = if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") };
    format!("{} on {cpus}", parts.join(", "))
}

/// The line of a report; nothing, where the trace has no limits.
pub(crate) fn report_line(report: &Report) -> String {
    let Some(roofline) = report.roofline.as_ref().filter(|roofline| !roofline.figures.is_empty()) else {
        return String::new();
    };
    format!("Machine limits (measured {}): {}\n", day(roofline.measured_at), printable(&limits_line(roofline)))
}

/// All figures, in groups: bandwidths, then peaks.
pub fn limits_table(roofline: &Roofline, width: Option<usize>) -> String {
    let mut out = String::new();
    for (title, bandwidths) in [("Bandwidth (bytes per second)", true), ("Peaks (operations per second)", false)] {
        let figures: Vec<&Figure> =
            roofline.figures.iter().filter(|figure| figure.quantity.is_bandwidth() == bandwidths).collect();
        let mut table = Table::new(&[
            ("", Left),
            ("of", Left),
            ("CPUs", Right),
            ("kind", Left),
            ("best", Right),
            ("median", Right),
            ("spread", Right),
            ("instructions", Left),
        ]);
        for figure in &figures {
            table.row(vec![
                figure.quantity.name().to_owned(),
                figure.level.map_or("", Level::name).to_owned(),
                figure.cpus.to_string(),
                figure.core_type.clone().unwrap_or_default(),
                limit(figure, figure.best),
                limit(figure, figure.median),
                share(figure.spread()),
                figure.instructions.clone(),
            ]);
        }
        if !table.is_empty() {
            out.push_str(&format!("{title}\n{}\n", table.render(width, str::to_owned)));
        }
    }
    for note in &roofline.notes {
        out.push_str(&printable(note));
        out.push('\n');
    }
    out
}

/// A limit with its unit.
fn limit(figure: &Figure, of: u64) -> String {
    let unit = match figure.quantity {
        quantity if quantity.is_bandwidth() => "B/s",
        Quantity::Int8 | Quantity::Int16 => "OP/s",
        _ => "FLOP/s",
    };
    let (prefix, scale) = if of >= 999_500_000_000 { ("T", 1e12) } else { ("G", 1e9) };
    format!("{} {prefix}{unit}", rate(of as f64 / scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(quantity: Quantity, level: Option<Level>, cpus: u32, best: u64) -> Figure {
        Figure {
            quantity,
            level,
            cpus,
            core_type: None,
            instructions: "loop".into(),
            working_set: 0,
            repetitions: 9,
            best,
            median: best,
            low: best - best / 100,
            high: best,
            off_cpu_percent: 0,
        }
    }

    fn roofline() -> Roofline {
        let memory = Some(Level::Memory);
        let figures = vec![
            figure(Quantity::Read, memory, 1, 12_340_000_000),
            figure(Quantity::Read, memory, 2, 20_000_000_000),
            figure(Quantity::Fp32, None, 2, 240_000_000_000),
            figure(Quantity::Int8, None, 2, 1_200_000_000_000),
        ];
        Roofline { figures, notes: vec!["Beware\u{1b}.".into()], ..Roofline::default() }
    }

    #[test]
    fn the_line_has_the_figures_of_all_processors() {
        let line = limits_line(&roofline());
        assert_eq!(line, "read 20.0 GB/s, fp32 240 GFLOP/s, int8 1.20 TOP/s on 2 CPUs");
    }

    #[test]
    fn the_table_has_every_figure_and_what_to_know_of_them() {
        let text = limits_table(&roofline(), None);
        let read: Vec<&str> = text.lines().filter(|line| line.trim().starts_with("read")).collect();
        assert_eq!(read.len(), 2, "{text}");
        assert!(read[0].contains("12.3 GB/s") && read[0].contains("1.0 %") && read[0].contains("memory"), "{text}");
        assert!(text.contains("1.20 TOP/s") && text.ends_with("Beware\u{fffd}.\n"), "{text}");
        assert_eq!(limits_table(&Roofline::default(), None), "");
    }
}
