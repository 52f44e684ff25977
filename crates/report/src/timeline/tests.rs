//! Small traces as Chrome's events: they are the tracks as any viewer has them.

use super::*;
use profinfer_analysis::testing::{Put, Records};
use profinfer_analysis::{Rules, Timeline};
use profinfer_schema::{FieldLayout, FieldType};
use serde_json::Value;
use std::collections::BTreeMap;

/// A slice: from when to when, ns, and its name.
type Shown = (u64, u64, String);

#[derive(Debug, Default, PartialEq, Eq)]
struct Tracks {
    /// By process and name.
    slices: BTreeMap<(u64, String), Vec<Shown>>,
    /// Values over time.
    values: BTreeMap<String, Vec<(u64, u64)>>,
}

fn ns(micros: &Value) -> u64 {
    (micros.as_f64().unwrap() * 1e3).round() as u64
}

fn timeline(records: &Records) -> (Tracks, Vec<Value>) {
    let mut bytes = Vec::new();
    let mut writer = TimelineWriter::new(&mut bytes, Format::Chrome, 1..=u64::MAX, &Origin::default());
    let mut timeline = Timeline::new(&records.schema, Rules::default(), 1);
    records.records.iter().for_each(|record| timeline.record(record, &mut writer));
    timeline.finish(&mut writer);
    writer.finish().unwrap();
    let events: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
    let mut names = BTreeMap::new();
    let mut tracks = Tracks::default();
    for event in &events {
        let place = (event["pid"].as_u64().unwrap(), event["tid"].as_u64());
        let name = event["name"].as_str().unwrap();
        match event["ph"].as_str().unwrap() {
            "M" if name == "thread_name" => {
                names.insert(place, event["args"]["name"].as_str().unwrap().to_owned());
            }
            "X" | "i" => {
                let start = ns(&event["ts"]);
                let shown = (start, start + event.get("dur").map_or(0, ns), name.to_owned());
                tracks.slices.entry((place.0, names[&place].clone())).or_default().push(shown);
            }
            "C" => {
                let value = event["args"].as_object().unwrap().values().next().unwrap().as_f64().unwrap();
                tracks.values.entry(name.to_owned()).or_default().push((ns(&event["ts"]), value.round() as u64));
            }
            _ => {}
        }
    }
    (tracks, events)
}

/// Viewers show a tree: slices of one track are one within the other, or apart.
fn nest(tracks: &Tracks) {
    for (track, slices) in &tracks.slices {
        let mut slices = slices.clone();
        slices.sort_by_key(|(start, end, _)| (*start, std::cmp::Reverse(*end)));
        let mut open: Vec<u64> = Vec::new();
        for slice in slices.iter().filter(|(start, end, _)| start < end) {
            open.retain(|end| *end > slice.0);
            assert!(open.iter().all(|end| slice.1 <= *end), "{track:?}: {slice:?} overlaps: {slices:?}");
            open.push(slice.1);
        }
    }
}

/// Three steps whose last jobs go on in the next one: each job's time, after its step's start.
fn with_jobs(since: u64) -> Records {
    let steps: [(u64, &[(u64, u64)]); 3] =
        [(1000, &[(22, 100), (12, 70), (14, 60)]), (1080, &[(12, 150), (19, 140)]), (1200, &[(12, 60)])];
    let mut r = Records::default();
    r.push("thread", 7, (1, 1), &[("pid", Put::Int(1))]);
    for (at, jobs) in steps {
        for (start, _) in jobs.iter().rev() {
            r.push("submit", 7, (at + start - 1, at + start), &[("queue", Put::Int(0xabc))]);
        }
        for (start, end) in jobs {
            let fields = [("queued", Put::Int(at + start - 1)), ("name", Put::Text("render"))];
            let fields = [&fields[..], &[("job_since", Put::Int(since))]].concat();
            r.push("job", 7, (at + start, at + end), &fields);
        }
        r.push("step", 7, (at, at + 70), &[("tokens", Put::Int(1))]);
    }
    r
}

/// Jobs of a ring, and work of a queue, overlap what the step before left pending, and may overlap within a step.
#[test]
fn work_of_a_device_is_nested_or_apart() {
    // As the driver's scheduler tells them, and from when their fences were made: then in turn, but for other steps'.
    let run = [(1012, 1070), (1014, 1060), (1070, 1100), (1100, 1230), (1100, 1220), (1230, 1260)];
    let created = [(1014, 1060), (1060, 1070), (1070, 1100), (1100, 1220), (1220, 1230), (1230, 1260)];
    let (of_run, of_created) = ([0, 0, 48, 8, 1, 18], [0, 0, 0, 1, 0, 18]);
    for (since, expected, shortened) in [(1, run, of_run), (3, created, of_created)] {
        let (tracks, events) = timeline(&with_jobs(since));
        nest(&tracks);
        let jobs: Vec<(u64, u64)> =
            tracks.slices[&(1, "render (jobs of the kernel)".into())].iter().map(|of| (of.0, of.1)).collect();
        assert_eq!(jobs, expected, "{since}");
        let of_jobs = events.iter().filter(|event| event["cat"] == "job");
        let earlier = of_jobs.map(|event| event["args"]["overlaps the one before, ns"].as_u64().unwrap_or(0));
        assert_eq!(earlier.collect::<Vec<_>>(), shortened, "{since}");
        let pending = &tracks.slices[&(1, "queue 0xabc".into())];
        assert!(pending.iter().filter(|slice| slice.2 == "work pending").count() > 3, "{pending:?}");
        // An arrow does not end before it begins.
        let arrows = |phase: &str| -> BTreeMap<Option<u64>, u64> {
            let ends = events.iter().filter(|event| event["cat"] == "flow" && event["ph"] == phase);
            ends.map(|event| (event["id"].as_u64(), ns(&event["ts"]))).collect()
        };
        let (begins, ends) = (arrows("s"), arrows("f"));
        assert!(!begins.is_empty() && ends.iter().all(|(id, end)| begins[id] <= *end), "{begins:?} {ends:?}");
    }
}

#[test]
fn what_processes_do_outside_steps_is_on_tracks_of_each() {
    let mut r = Records::default();
    for (tid, pid) in [(7, 70), (8, 80)] {
        r.push("thread", tid, (1, 1), &[("pid", Put::Int(pid))]);
    }
    for at in [100, 200] {
        r.push("operator", 7, (at, at + 60), &[("node", Put::Int(0xa))]);
        r.push("operator", 8, (at + 30, at + 90), &[("node", Put::Int(0xa))]);
    }
    // It also runs steps, later.
    r.push("operator", 7, (1010, 1020), &[("node", Put::Int(0xa))]);
    r.push("step", 7, (1000, 1100), &[("tokens", Put::Int(1))]);
    let (tracks, events) = timeline(&r);
    nest(&tracks);
    let times = |pid: u64, track: &str| -> Vec<(u64, u64)> {
        tracks.slices[&(pid, track.to_owned())].iter().map(|of| (of.0, of.1)).collect()
    };
    assert_eq!(times(70, "lane 0, outside steps"), [(100, 160), (200, 260)]);
    assert_eq!(times(80, "lane 0, outside steps"), [(130, 190), (230, 290)]);
    assert_eq!((times(70, "lane 0"), times(70, "steps")), (vec![(1010, 1020)], vec![(1000, 1100)]));
    assert_eq!(events.iter().filter(|event| event["name"] == "process_name").count(), 2);
}

/// Of nested operators the inner one counts; after it comes what the outer one counted, until that ends.
#[test]
fn a_counter_does_not_fall_while_an_operator_goes_on() {
    let mut r = Records::default();
    let index = r.schema.records.iter().position(|of| of.name == "operator").unwrap();
    let ty = &mut r.schema.records[index];
    ty.fields.push(FieldLayout { name: "cycles".into(), offset: ty.size, ty: FieldType::Counter });
    ty.size += 8;
    r.schema.counters.insert("cycles".into(), profinfer_schema::CounterInfo::default());
    r.push("thread", 7, (1, 1), &[("pid", Put::Int(1))]);
    for (span, cycles) in [((120, 150), 30), ((150, 180), 20), ((110, 200), 90), ((200, 230), 10)] {
        r.push("operator", 7, span, &[("node", Put::Int(0xa)), ("cycles", Put::Int(cycles))]);
    }
    r.push("step", 7, (100, 300), &[("tokens", Put::Int(1))]);
    let (tracks, _) = timeline(&r);
    // Without those that it called, the outer one counted 40.
    let expected = [(110, 40), (120, 30), (150, 40), (150, 20), (180, 40), (200, 0), (200, 10), (230, 0)];
    assert_eq!(tracks.values["lane 0: cycles"], expected);
}
