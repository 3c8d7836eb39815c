//! Claims about sweeps: the same tasks and bytes everywhere, nothing done twice, nothing half
//! written.

use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;

use super::folder::{Folder, file_name};
use super::plan::{Plan, Task};
use super::*;

/// Two links of a quarter of a second.
const FILE: &str = "\
seconds = 0.25
schemes = [\"udp\", \"redundant\"]
scenario = \"links.toml\"

[[stream]]
kind = \"control\"

[[sweep]]
key = \"link.radio.loss\"
values = [0, 0.5]
";
const LINKS: &str = "\
[[link]]
name = \"radio\"
between = [\"drone\", \"station\"]
delay_ms = 20
";

fn written() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("links.toml"), LINKS).unwrap();
    let file = folder.path().join("own.toml");
    std::fs::write(&file, FILE).unwrap();
    (folder, file)
}

fn plan(file: &Path, over: &[&str]) -> Result<Plan, String> {
    let over = over.iter().map(|text| parse_over(text).unwrap()).collect();
    Plan::open(file, Over::Product(over), Some((3, 4)), &[])
}

/// Runs what is left of a share into a folder; returns how many tasks ran.
fn run_into(out: &Path, plan: &Plan, shard: (u64, u64)) -> usize {
    let folder = Folder::open(out, plan).unwrap();
    let tasks: Vec<Task> = plan.shard(shard).collect();
    let done = folder.done(&tasks).unwrap();
    let rest: Vec<Task> = tasks.into_iter().filter(|task| !done.contains(task)).collect();
    assert_eq!(run::all(plan, &folder, &rest, 2, |_, _| {}), Ok(0));
    rest.len()
}

fn files(out: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(out.join("points")).unwrap().flatten();
    let mut files: Vec<_> = entries
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn shares_put_together_are_the_whole_to_the_byte() {
    let (folder, file) = written();
    let plan = plan(&file, &["stream.control.rate_hz=[50, 100]"]).unwrap();
    let [whole, shares] = ["whole", "shares"].map(|name| folder.path().join(name));
    assert_eq!(run_into(&whole, &plan, (1, 1)), 8);
    let ran: usize = (1..=3).map(|share| run_into(&shares, &plan, (share, 3))).sum();
    assert_eq!(ran, 8);
    assert!(files(&whole) == files(&shares), "not the same bytes");
    assert_eq!(run_into(&whole, &plan, (1, 1)), 0, "nothing is done twice");
}

#[test]
fn what_was_lost_is_run_again_and_is_what_it_was() {
    let (folder, file) = written();
    let plan = plan(&file, &[]).unwrap();
    let out = folder.path().join("out");
    run_into(&out, &plan, (1, 1));
    let before = files(&out);
    let lost = out.join("points").join(file_name(Task { point: 1, seed: 4 }));
    std::fs::remove_file(lost).unwrap();
    assert_eq!(run_into(&out, &plan, (1, 1)), 1);
    assert!(files(&out) == before, "not the same bytes");
}

#[test]
fn a_description_runs_elsewhere_without_the_files() {
    let (folder, file) = written();
    let plan = plan(&file, &["stream.control.rate_hz=[50, 100]"]).unwrap();
    let description = plan.description();
    folder.close().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let open = |description: &serde_json::Value| {
        let path = elsewhere.path().join("sweep.json");
        std::fs::write(&path, description.to_string()).unwrap();
        Plan::open_description(&path)
    };
    let there = open(&description).unwrap();
    let task = Task { point: 3, seed: 4 };
    let [elsewhere_ran, ran] = [&there, &plan].map(|plan| run::one(plan, task).unwrap());
    assert!(elsewhere_ran == ran, "not the same bytes");
    let mut other = description.clone();
    other["code"] = json!("0123");
    assert!(open(&other).err().unwrap().contains("install the same version"));
    let mut other = description;
    other["seeds"] = json!([3, 5]);
    assert!(open(&other).err().unwrap().contains("its hash is another one"));
}

#[test]
fn another_sweep_is_refused_and_told_apart() {
    let (folder, file) = written();
    let out = folder.path().join("out");
    Folder::open(&out, &plan(&file, &[]).unwrap()).unwrap();
    assert!(Folder::open(&out, &plan(&file, &[]).unwrap()).is_ok());
    let other = plan(&file, &["link.radio.loss=[0.25]"]).unwrap();
    let told = Folder::open(&out, &other).err().unwrap();
    assert!(told.contains("holds results of another sweep") && told.contains("over"), "{told}");
    std::fs::write(folder.path().join("links.toml"), LINKS.replace("20", "21")).unwrap();
    let told = Folder::open(&out, &plan(&file, &[]).unwrap()).err().unwrap();
    assert!(told.contains("one that it names, is not what it was"), "{told}");
}

#[test]
fn a_file_of_results_has_what_was_run_what_varied_and_every_figure() {
    let (_folder, file) = written();
    let plan = plan(&file, &[]).unwrap();
    let bytes = run::one(&plan, Task { point: 1, seed: 4 }).unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let names: Vec<&str> = schema.columns().iter().map(|column| column.name()).collect();
    assert_eq!(names[..6], ["sweep", "code", "point", "seed", "scheme", "link.radio.loss"]);
    let place = |name| names.iter().position(|other| *other == name).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].get_string(0).unwrap(), plan.hash());
    assert_eq!([2, 3].map(|place| rows[0].get_long(place).unwrap()), [1, 4]);
    assert_eq!(rows[1].get_string(4).unwrap(), "redundant");
    assert_eq!(rows[1].get_double(5).unwrap().to_bits(), 0.5_f64.to_bits());
    assert!(rows[0].get_double(place("up.control_lost")).unwrap() > 0.0);
}

#[test]
fn points_may_be_given_one_by_one_and_set_the_same_keys() {
    let (folder, file) = written();
    let points = folder.path().join("points.jsonl");
    let open = |text: &str| {
        std::fs::write(&points, text).unwrap();
        Plan::open(&file, plan::read_points(&points)?, None, &[])
    };
    let two = "{\"link.radio.loss\": 0.1, \"link.radio.delay_ms\": 5}\n\n\
               {\"link.radio.loss\": 0.2, \"link.radio.delay_ms\": 7}\n";
    assert_eq!(open(two).unwrap().point_count(), 2);
    let told = |text| open(text).err().unwrap();
    assert!(told("{\"link.radio.loss\": 2}\n").contains("link.radio.loss"));
    assert!(
        told("{\"link.radio.loss\": [2]}\n")
            .contains("points.jsonl:1: link.radio.loss: [2] is no number")
    );
    assert!(told("{}\n{\"link.radio.loss\": 0}\n").contains("every point sets the same keys"));
    assert!(told("loss\n").contains("points.jsonl:1"));
    assert!(told("").contains("there are no points"));
}

#[test]
fn words_of_the_command_line_are_read_or_told() {
    let read = parse_over("link.lte.rate=[1, \"unlimited\", true]").unwrap();
    let values = [Scalar::Number(1.0), Scalar::Text("unlimited".to_owned()), Scalar::Flag(true)];
    assert_eq!(read, ("link.lte.rate".to_owned(), values.to_vec()));
    for wrong in ["", "a", "a=1", "a=[]", "a=[[1]]", "a=[1]\nb=2", "a=[nan]"] {
        assert!(parse_over(wrong).is_err(), "{wrong:?}");
    }
    assert_eq!(parse_shard("3/100"), Ok((3, 100)));
    for wrong in ["", "0/3", "4/3", "1/0", "x/2", "1"] {
        assert!(parse_shard(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn mistakes_are_told_before_anything_runs() {
    let (_folder, file) = written();
    let told = |over: &str| plan(&file, &[over]).err().unwrap();
    assert!(
        told("link.radio.loss=[7]").contains("link.radio.loss"),
        "{}",
        told("link.radio.loss=[7]")
    );
    assert!(told("link.lte.loss=[0.5]").contains("lte"));
    assert!(told("seeds=[\"1-3\"]").contains("the same for the whole run"));
    assert!(told("link.radio.loss=[0.5, 0.5]").contains("is there twice"));
    let many = Plan::open(&file, Over::default(), Some((1, u64::MAX)), &[]);
    assert!(many.err().unwrap().contains("tasks"));
}
