//! Tests of the readers on small files and on broken ones, and of windows on the recordings beside
//! the checkout.

use netem::{Instant, LinkRate, Rate};
use units::{Duration, Rng};

use super::formats::{HowToRead, read};
use super::reading::{Assumed, Sample, link};
use super::window::{Window, WindowOptions};
use super::write::write;
use super::*;

const CSV: &str = "time,dl,ping\n\
    2023-05-13T14:22:42Z,12500,30\n\
    2023-05-13T14:22:43Z,0,31\n\
    2023-05-13T14:22:44Z,3000,\n\
    2023-05-13T14:22:54Z,4000,40\n\
    2023-05-13T14:22:55Z,5000,50\n";
const IPERF3: &str = r#"{"start": {"timestamp": {"timesecs": 1683987762}}, "intervals": [
    {"sum": {"start": 0, "end": 1.0, "bits_per_second": 5e6, "lost_percent": 2.5}},
    {"sum": {"start": 1.00004, "end": 2.0, "bits_per_second": 0}}]}"#;
const PING: &str = "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n\
    [1683987762.100] 64 bytes from 192.0.2.1: icmp_seq=2 ttl=49 time=100 ms\n\
    no answer yet for icmp_seq=3\n\
    [1683987762.440] 64 bytes from 192.0.2.1: icmp_seq=4 ttl=49 time=40.0 ms\n\
    [1683987762.441] 64 bytes from 192.0.2.1: icmp_seq=4 ttl=49 time=41.0 ms (DUP!)\n";
const ASSUMED: Assumed =
    Assumed { rate: Rate::from_bps(12_000_000), delay: Duration::from_millis(30) };

fn how() -> HowToRead {
    HowToRead {
        rate: Some("dl:kbps".to_owned()),
        rtt: Some("ping:ms".to_owned()),
        ..HowToRead::default()
    }
}

#[test]
fn a_table_reads_with_its_units_and_its_gaps() {
    let reading = read(CSV, "d.csv", &how()).expect("it reads");
    assert_eq!((reading.start_s, reading.length_s), (Some(1_683_987_762.0), 14.0));
    assert_eq!(reading.gaps, [(3.0, 12.0)]);
    let [first, _, lost, ..] = reading.samples[..] else { panic!("five samples") };
    let sample = |at_s, mbps, delay_ms, loss| Sample {
        at_s,
        rate_mbps: Some(mbps),
        delay_ms,
        loss: Some(loss),
    };
    assert_eq!((first, lost), (sample(0.0, 12.5, Some(15.0), 0.0), sample(2.0, 3.0, None, 1.0)));
    let way = reading.way("sat", ASSUMED).expect("it makes a link");
    let LinkRate::Csv { series, .. } = &way.rate else { panic!("a series") };
    let rate = |s| series.at(Instant::ZERO + Duration::from_secs(s)).as_mbps();
    assert_eq!(
        [rate(0), rate(1), rate(2), rate(3), rate(11), rate(13)],
        [12.5, 0.0, 3.0, 0.0, 0.0, 5.0]
    );
    assert_eq!(way.delay_at(Instant::from_millis(2_500)), Duration::from_micros(15_500));
}

#[test]
fn iperf3_and_ping_read() {
    let iperf3 = read(IPERF3, "i.json", &HowToRead::default()).expect("it reads");
    let rates: Vec<_> = iperf3.samples.iter().filter_map(|sample| sample.rate_mbps).collect();
    assert_eq!((rates, iperf3.gaps.len()), (vec![5.0, 0.0], 0));
    let ping = read(PING, "p.txt", &HowToRead::default()).expect("it reads");
    let of = |sample: &Sample| ((sample.at_s * 1e3).round(), sample.delay_ms, sample.loss);
    let samples: Vec<_> = ping.samples.iter().map(of).collect();
    let (got, lost) = (Some(0.0), Some(1.0));
    assert_eq!(samples, [(0.0, Some(50.0), got), (200.0, None, lost), (400.0, Some(20.0), got)]);
    assert_eq!(ping.start_s, Some(1_683_987_762.0));
}

#[test]
fn errors_name_file_line_and_column() {
    let error = |text: &str, how: &HowToRead| read(text, "x", how).expect_err("it is wrong");
    let bad = CSV.replace("5000,50", "5000,fast");
    assert_eq!(error(&bad, &how()), "x:6: column ping: \"fast\" is not a number from 0");
    let bad = CSV.replace("2023-05-13T14:22:44Z", "noon");
    assert!(error(&bad, &how()).starts_with("x:4: column time: \"noon\" is neither a number nor"));
    let no_columns = error(CSV, &HowToRead::default());
    assert!(no_columns.starts_with("x:1: which column is a rate"), "{no_columns}");
    let none = HowToRead { rate: Some("up".to_owned()), ..HowToRead::default() };
    assert_eq!(error(CSV, &none), "x:1: no column up; there are time, dl, ping");
    let json = error("{\n  \"intervals\": 3}", &HowToRead::default());
    assert!(json.starts_with("x:2:"), "{json}");
    assert_eq!(
        error("PING a\nicmp_seq=x time=3\n", &HowToRead::default()),
        "x:2: icmp_seq is not a number"
    );
    assert_eq!(error("", &HowToRead::default()), "x:1: needs a header line that names the columns");
}

#[test]
fn broken_files_never_panic_and_what_reads_makes_a_link() {
    let mut rng = Rng::new(7);
    let pieces =
        ["-", "1e308", "\"", ",", "\n", "NaN", "99999999999999999999", "time=", "{", "ä", ":"];
    let files = [CSV, IPERF3, PING, "1\n2\n2\n9\n", "time_s rtt_ms\n0 30\n1 31\n"];
    let mut read_well = 0;
    for round in 0..20_000_u64 {
        let mut text = files[round as usize % files.len()].to_owned();
        for _ in 0..1 + rng.below(3) {
            let at = rng.below(text.len() as u64 + 1) as usize;
            let end = (at + rng.below(4) as usize).min(text.len());
            if text.is_char_boundary(at) && text.is_char_boundary(end) {
                let piece = pieces[rng.below(pieces.len() as u64) as usize];
                text.replace_range(at..end, piece);
            }
        }
        let how = if round % 2 == 0 { how() } else { HowToRead::default() };
        if let Ok(reading) = read(&text, "x", &how)
            && reading.length_s < 1e9
        {
            let made = link("x", &reading, None, ASSUMED);
            assert!(made.is_ok() || reading.length_s < 1.0, "{round}: {made:?}\n{text}");
            read_well += 1;
        }
    }
    assert!(read_well > 1_000, "{read_well}");
}

#[test]
fn a_window_that_is_written_reads_back() {
    let reading = read(CSV, "d.csv", &how()).expect("it reads");
    let link = link("sat", &reading, None, ASSUMED).expect("it makes a link");
    let take = Take { name: String::new(), links: vec![link] };
    let options = WindowOptions { seconds: 14, ..WindowOptions::default() };
    let window = Window::whole("own", &take, &options);
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(&window, folder.path()).expect("it is written and reads back");
    let again = emulator::read_scenario(&path).expect("it reads");
    assert_eq!((again.seconds, again.links.len()), (14.0, 1));
}

#[test]
fn worst_windows_are_those_in_which_least_lives_and_do_not_overlap() {
    // 10 Mbit/s, but nothing from 100 to 110 s and from 300 to 340 s; unknown from 400 s on.
    let mut text = "time_s,rate_mbps\n".to_owned();
    for second in 0..500 {
        let dead = (100..110).contains(&second) || (300..340).contains(&second);
        let field = match second {
            400.. => "",
            _ if dead => "0",
            _ => "10",
        };
        text.push_str(&format!("{second},{field}\n"));
    }
    let reading = read(&text, "r.csv", &HowToRead::default()).expect("it reads");
    assert_eq!(reading.gaps, [(400.0, 500.0)]);
    let one = link("one", &reading, None, ASSUMED).expect("it makes a link");
    let other = RecordedLink { name: "other".to_owned(), ..one.clone() };
    let set = LinkSet {
        name: "set".to_owned(),
        simultaneous: true,
        with: None,
        takes: vec![Take { name: String::new(), links: vec![one, other] }],
    };
    let [pair] = &combinations(&set, 2..=2)[..] else { panic!("one pair") };
    let options = WindowOptions { seconds: 60, ..WindowOptions::default() };
    let worst = pair.windows(Choice::Worst(2), &options);
    let dead = |window: &Window| window.alive.iter().filter(|&&alive| alive == 0).count();
    assert_eq!(worst.iter().map(dead).collect::<Vec<_>>(), [40, 10]);
    let starts = |windows: &[Window]| windows.iter().map(|one| one.starts_s[0]).collect::<Vec<_>>();
    let random = Choice::Random { count: 3, seed: 5 };
    let drawn = starts(&pair.windows(random, &options));
    assert_eq!(drawn, starts(&pair.windows(random, &options)), "the same seed, the same windows");
    assert!(drawn.iter().all(|start| start + 60 <= 400), "{drawn:?}");
    for (n, a) in drawn.iter().enumerate() {
        assert!(drawn[..n].iter().all(|b| a.abs_diff(*b) >= 60), "{drawn:?}");
    }
}

/// Reads the recordings; none, with a word about it, where they are not there.
fn sets(test: &str) -> Option<Vec<LinkSet>> {
    let folder = folder();
    if !folder.is_dir() {
        eprintln!("SKIPPED: {test}: no recordings in {}", folder.display());
        return None;
    }
    Some(link_sets(&folder).expect("the recordings read"))
}

#[test]
fn every_pair_and_triple_of_the_recordings_has_windows() {
    let Some(sets) = sets("every_pair_and_triple_of_the_recordings_has_windows") else { return };
    let options = WindowOptions::default();
    for set in &sets {
        for combination in combinations(set, 2..=3) {
            let worst = combination.windows(Choice::Worst(3), &options);
            let random = combination.windows(Choice::Random { count: 3, seed: 1 }, &options);
            for window in worst.iter().chain(&random) {
                assert!((20..=120).contains(&window.alive.len()), "{}", window.name);
                assert_eq!(window.scenario.links.len(), combination.links().len());
            }
            assert_eq!((worst.len(), random.len()), (3, 3), "{}", combination.name);
        }
    }
}
