//! Where the tables of a recording are in a folder with those of many: each level of the path is a column to who reads it.

use jiff::Timestamp;
use profinfer_schema::Origin;
use std::path::{Path, PathBuf};

/// Characters of a name in a path.
const MAX_NAME: usize = 64;

/// `date=…/host=…/engine=…/run=…`, of what was recorded at that time, ns of UNIX time. Days are those of UTC.
pub(crate) fn partition(origin: &Origin, wall_clock_ns: u64) -> PathBuf {
    let time = Timestamp::from_nanosecond(i128::from(wall_clock_ns)).unwrap_or_default();
    Path::new(&format!("date={}", time.strftime("%Y-%m-%d")))
        .join(format!("host={}", name(&origin.host.name)))
        .join(format!("engine={}", name(&origin.engine)))
        .join(format!("run={}-{}", origin.wall_clock_ns, origin.pid))
}

/// A name as a part of a path that readers take apart: a trace may call its machine and its engine anything.
fn name(of: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let name: String = of.chars().take(MAX_NAME).map(safe).collect();
    if name.trim_matches('.').is_empty() { "unknown".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let names =
            [("node-1.lan", "node-1.lan"), ("../..", ".._.."), ("..", "unknown"), ("", "unknown"), ("a/b=c", "a_b_c")];
        for (of, expected) in names {
            assert_eq!(name(of), expected);
        }
    }

    #[test]
    fn days_are_those_of_utc() {
        let origin = Origin { engine: "a b".into(), pid: 7, ..Origin::default() };
        for (time, date) in [(0, "1970-01-01"), (1_795_737_599_999_999_999, "2026-11-26"), (u64::MAX, "2554-07-21")] {
            let expected = format!("date={date}/host=unknown/engine=a_b/run=0-7");
            assert_eq!(partition(&origin, time), Path::new(&expected));
        }
    }
}
