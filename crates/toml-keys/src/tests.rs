//! One text with every kind of mistake, and what is said about it.

use super::*;
use units::Duration;

/// Reads keys of every type, all of them optional.
fn keys(root: &Section<'_>) -> Option<()> {
    root.exclusive(&["rate", "trace"]);
    root.required_text("name");
    root.text("trace");
    root.number("count", 1..=9);
    root.probability("loss");
    root.millis("delay_ms");
    root.mbps("rate", "say off");
    root.choice("mode", &[("drop", 1), ("hold", 2)]);
    root.pairs("steps", 2);
    root.list::<u8>("ports", "a port such as \"14\"");
    for mut link in root.sections("link") {
        if let Some(name) = link.text("name") {
            link.call(name);
        }
        link.flag("up");
        if let Some(air) = link.section("air") {
            air.fraction("noise", f64::NEG_INFINITY..=f64::INFINITY);
            air.finish();
        }
        link.finish();
    }
    Some(())
}

fn mistakes(text: &str) -> Vec<String> {
    match read(text, "f.toml", keys) {
        Ok(()) => Vec::new(),
        Err(error) => error.lines(),
    }
}

#[test]
fn every_mistake_is_told_at_once_with_its_line_and_key() {
    let text = "count = 10\nloss = 2\ndelay_ms = -1 # negative\nrate = 0\ntrace = 5\n\
                mode = \"d\\u001bp\"\nsteps = [[1]]\nports = [\"80\", \"x\", 3]\n\n\
                [[link]]\nup = 1\n[[link]]\nname = \"wifi\"\nuq = true\n[link.air]\nnoise = inf\n";
    assert_eq!(
        mistakes(text),
        [
            "f.toml:1: name: is missing",
            "f.toml:1: count: 10 is not a whole number from 1 to 9",
            "f.toml:2: loss: 2 is not a probability from 0 to 1",
            "f.toml:3: delay_ms: -1 is not a number, 0 or more",
            "f.toml:4: rate: must be more than 0; say off",
            "f.toml:5: trace: not together with rate",
            "f.toml:5: trace: 5 is not a text in quotes",
            "f.toml:6: mode: \"d\\u{1b}p\" is not one of \"drop\", \"hold\"",
            "f.toml:7: steps: a value of type array is not a list of pairs such as [[0, 12], [8, 0.5]], none negative",
            "f.toml:8: ports: \"x\" is not a port such as \"14\"",
            "f.toml:8: ports: a value of type array is not a list of texts: a port such as \"14\"",
            "f.toml:11: link[0].up: 1 is not true or false",
            "f.toml:14: link.wifi.uq: unknown key; the keys here are name, up, air",
            "f.toml:16: link.wifi.air.noise: inf is not a number",
        ]
    );
}

#[test]
fn a_mistake_is_one_line_whatever_names_hold() {
    let text = "name = \"x\"\n[[link]]\nname = \"wi\\nfi\"\n\"u\\r\\u001b[2J\\tq\" = 1\n";
    let error = read(text, "a\nb.toml", keys).unwrap_err();
    let said = "a\\nb.toml:4: link.wi\\nfi.u\\r\\u{1b}[2J\\tq: unknown key; the keys here are name, up, air";
    assert_eq!(error.to_string(), said);
    assert_eq!(one_line("é \"\\ä"), "é \"\\ä", "other letters stay");
}

#[test]
fn a_text_that_is_not_toml_says_where() {
    assert!(mistakes("\n\nname = = 3")[0].starts_with("f.toml:3: name: not TOML: "));
}

#[test]
fn a_file_without_a_mistake_is_read() {
    let read = read("delay_ms = 1.5\nports = \"80\"", "f", |root| {
        Some((root.millis("delay_ms")?, root.list::<u8>("ports", "a port")))
    });
    assert_eq!(read, Ok((Duration::from_micros(1_500), vec![80])));
}

fn changed(text: &str, key: &str, value: Scalar) -> Result<(u64, f64), FileError> {
    let changes = [Change { key: key.to_owned(), value }];
    read_changed(text, "f", &changes, |root| {
        let count = root.number("count", 0..=9).unwrap_or(0);
        let mut noise = 0.0;
        for link in root.sections("link") {
            link.text("name");
            if let Some(air) = link.section("air") {
                noise += air.fraction("noise", 0.0..=1.0).unwrap_or(0.0);
                air.finish();
            }
            link.finish();
        }
        Some((count, noise))
    })
}

#[test]
fn changes_are_read_as_if_they_stood_in_the_file() {
    const TEXT: &str = "count = 3\n[[link]]\nname = \"wifi\"\n[link.air]\nnoise = 0.5\n\
                        [[link]]\nname = \"1\"\n";
    let number = Scalar::Number;
    assert_eq!(changed(TEXT, "count", number(7.0)), Ok((7, 0.5)));
    assert_eq!(changed(TEXT, "link.wifi.air.noise", number(0.25)), Ok((3, 0.25)));
    assert_eq!(changed(TEXT, "link.0.air.noise", number(1e-7)), Ok((3, 1e-7)));
    assert_eq!(changed(TEXT, "link.1.air.noise", number(0.25)), Ok((3, 0.75)), "by its name");
    for (key, value, expected) in [
        ("count", number(10.0), "f:1: count: 10 is not a whole number from 0 to 9"),
        ("count", Scalar::Text("two".to_owned()), "f:1: count: \"two\" is not a whole number"),
        ("count", number(1e300), "f:1: count: 1e300 is not a whole number"),
        ("link.wifi.air.noise", number(2.0), "f:5: link[0].air.noise: 2 is not a number from"),
        ("link.1.noise", number(2.0), "f:6: link[1].noise: unknown key"),
        (
            "link.wify.loss",
            number(0.0),
            "no [[link]] is called \"wify\"; there are wifi, 1; did you mean wifi?",
        ),
        ("link", number(0.0), "link: is not one value"),
        ("link.9", number(0.0), "no [[link]] is called \"9\""),
        ("link.0", number(0.0), "a key is missing"),
        ("count.9", number(0.0), "count has no keys"),
        ("", number(0.0), "a key is missing"),
        (
            "cuont",
            Scalar::Flag(true),
            "cuont: unknown key; the keys here are count, link; did you mean count?",
        ),
    ] {
        let said = changed(TEXT, key, value).unwrap_err().to_string();
        assert!(said.contains(expected), "{expected}\n{said}");
    }
}

#[test]
fn times_beyond_a_century_are_mistakes() {
    assert!(mistakes("name = \"x\"\ndelay_ms = 1e300")[0].ends_with("is longer than a century"));
}

#[test]
fn a_kind_that_several_sections_have_is_no_name_of_one() {
    const TWO: &str = "[[link]]\nkind = \"air\"\n[[link]]\nkind = \"air\"\nname = \"rear\"\n";
    let said = changed(TWO, "link.air.noise", Scalar::Number(0.0)).unwrap_err().to_string();
    assert!(said.contains("2 [[link]] are of kind \"air\": write link.0 or link.rear"), "{said}");
    let one = changed(TWO, "link.rear.noise", Scalar::Number(0.0)).unwrap_err().to_string();
    assert!(one.contains("f:3: link[1].noise: unknown key"), "{one}");
}

#[test]
fn what_is_wrong_says_how_it_would_be_right() {
    let of = |text: &str| mistakes(&format!("{text}\nname = \"x\"\n")).join("\n");
    assert!(of("delay_ms = \"4 ms\"").contains(
        "\"4 ms\" is not a number, 0 or more: write a number alone, without quotes or unit"
    ));
    assert!(of("delay_ms = \"four\"").ends_with("is not a number, 0 or more"));
    let both = mistakes("name = \"x\"\n[link]\nup = true\n[[link]]\nup = false\n").join("\n");
    assert!(both.contains("f.toml:4: not TOML: "), "{both}");
    assert!(
        both.ends_with("[link] and [[link]] exclude each other: [[link]] heads each of several"),
        "{both}"
    );
    assert!(of("ports = \"80, 81\"").ends_with("several make a list: [\"80\", \"81\"]"));
    let air = |text: &str| mistakes(&format!("name = \"x\"\n[[link]]\n{text}")).join("\n");
    assert_eq!(
        air("[[link.air]]\nnoise = 1\n"),
        "f.toml:3: link[0].air: there is one of these: head it [link.air]"
    );
    assert_eq!(air("air = 3\n"), "f.toml:3: link[0].air: 3 is not a section: [link.air]");
    let none = changed("count = 1\n", "link.wifi.noise", Scalar::Number(0.0)).unwrap_err();
    assert_eq!(none.to_string(), "f:1: link: there is none in the file");
    let list =
        |text: &str| read(text, "f", |root| root.scalars("values", 2)).unwrap_err().to_string();
    assert_eq!(list("values = [1, 2, 3]"), "f:1: values: has 3 values, not 1 to 2");
    assert_eq!(list("values = []"), "f:1: values: has 0 values, not 1 to 2");
}
