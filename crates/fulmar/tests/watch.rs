//! `fulmar events`, `fulmar web` and what is shipped for Prometheus, with two real daemons over the
//! loopback interface.

#![allow(clippy::unwrap_used, reason = "the panic of a test is its message")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use sys::sandbox::skip;

/// Longer than anything here takes: a test that waits for this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
const TOKEN: &str = "hVq0jvB1b0vXc0Yp2mYt0c5uW1k8aGd3";

/// A drone and its station over the loopback interface; they end with it.
struct Pair {
    directory: tempfile::TempDir,
    _daemons: [Killed; 2],
}

/// A program that is killed when it goes.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn fulmar() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fulmar"))
}

impl Pair {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let [drone, station] = ["drone", "station"].map(|role| {
            let key = directory.path().join(format!("{role}.key"));
            let made = fulmar().arg("keygen").arg("--out").arg(key).output().unwrap();
            String::from_utf8(made.stdout).unwrap().trim().to_owned()
        });
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let run = |role: &str, peer: &str, key: &str, links: String| {
            let socket = directory.path().join(format!("{role}.sock"));
            let text = format!(
                "role = \"{role}\"\nprivate_key_file = \"{role}.key\"\nstatus.socket = \"{}\"\n\
                 peer = [{{ name = \"{peer}\", public_key = \"{key}\" }}]\n{links}\n",
                socket.display()
            );
            let file = directory.path().join(format!("{role}.toml"));
            std::fs::write(&file, text).unwrap();
            let child = fulmar().arg("run").arg(file).stderr(Stdio::null()).spawn().unwrap();
            let killed = Killed(child);
            wait_for(|| socket.exists().then_some(()));
            killed
        };
        let listen = format!("listen = [{{ address = \"127.0.0.1:{port}\" }}]");
        let path = format!("path = [{{ interface = \"lo\", remote = \"127.0.0.1:{port}\" }}]");
        let daemons =
            [run("station", "drone", &drone, listen), run("drone", "ground", &station, path)];
        Self { directory, _daemons: daemons }
    }

    fn socket(&self, role: &str) -> PathBuf {
        self.directory.path().join(format!("{role}.sock"))
    }

    /// Starts the page for both, at a free port; returns its address.
    fn web(&self, more: &[&str]) -> (Killed, String) {
        let mut command = fulmar();
        command.args(["web", "--listen", "127.0.0.1:0"]).args(more);
        for role in ["drone", "station"] {
            command.arg("--socket").arg(self.socket(role));
        }
        let mut web = Killed(command.stderr(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(web.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let at = line.split("://").nth(1).unwrap_or_else(|| panic!("{line}"));
        let address = at.trim().trim_end_matches('/').to_owned();
        (web, address)
    }
}

fn wait_for<T>(look: impl Fn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "it did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Asks the page to pair, as itself.
fn ask_to_pair(address: &str, token: &str, what: &str, more: &str) -> (u16, Value) {
    let body = format!("{{\"token\":\"{token}\",\"do\":\"{what}\"}}");
    let json = "content-type: application/json\r\n";
    let length = body.len();
    let (status, _, body) = ask(
        address,
        &format!(
            "POST /api/pairing HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{json}{more}content-length: \
             {length}\r\n\r\n{body}"
        ),
    );
    (status, serde_json::from_str(&body).unwrap_or_default())
}

/// Sends a request as it is, and returns status, head and body.
fn ask(address: &str, request: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, head.to_owned(), body.to_owned())
}

fn get(address: &str, path: &str, more: &str) -> (u16, String, String) {
    ask(
        address,
        &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{more}\r\n"),
    )
}

fn events(socket: &Path, more: &[&str]) -> (Killed, BufReader<ChildStdout>) {
    let mut command = fulmar();
    command.args(["events", "--json", "--socket"]).arg(socket).args(more);
    let mut child = Killed(command.stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(child.0.stdout.take().unwrap());
    (child, lines)
}

#[test]
fn events_come_one_on_each_line_in_order_from_the_daemons_start() {
    let pair = Pair::start();
    let (_child, lines) = events(&pair.socket("station"), &["--all"]);
    let mut words = Vec::new();
    for (place, line) in lines.lines().enumerate() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert_eq!(event["seq"], place as u64 + 1);
        let word = event["event"].as_str().unwrap().to_owned();
        let is_last = word == "path-changed" && event["to"] == "active";
        words.push(word);
        if is_last {
            assert_eq!(event["peer"], "drone");
            break;
        }
    }
    assert_eq!(words[0], "started");
    assert!(words.iter().any(|word| word == "connected"), "{words:?}");

    // A look back ends by itself, and begins with what was there before.
    let mut command = fulmar();
    command.args(["events", "--all", "--no-follow", "--socket"]).arg(pair.socket("station"));
    let told = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(told.lines().next().unwrap().ends_with(" started"), "{told}");
    assert!(told.contains("drone: connected"), "{told}");
}

#[test]
fn the_page_shows_both_daemons_and_is_read_only() {
    let pair = Pair::start();
    let (_web, address) = pair.web(&[]);
    let view = wait_for(|| {
        let (status, _, body) = get(&address, "/api/view", "");
        assert_eq!(status, 200);
        let view: Value = serde_json::from_str(&body).unwrap();
        let drones = view["drones"].as_array()?;
        let works = drones.iter().filter(|drone| drone["paths"][0]["state"] == "active").count();
        // The page hears of states and of events each by itself: one may be a moment ahead.
        let told = view["events"].as_array()?.iter().any(|event| event["event"] == "connected");
        (works == 2 && told).then_some(view)
    });
    let detail = &view["drones"][0]["detail"];
    assert!(!detail["histories"][0]["delay_ms"].as_array().unwrap().is_empty(), "{detail}");

    for (path, kind) in [
        ("/", "text/html"),
        ("/app.js", "text/javascript"),
        ("/style.css", "text/css"),
        ("/icon.svg", "image/svg+xml"),
    ] {
        let (status, head, body) = get(&address, path, "");
        assert!(status == 200 && head.contains(&format!("content-type: {kind}")), "{path}: {head}");
        assert!(head.contains("content-security-policy: default-src 'none'; script-src 'self'"));
        assert!(!head.contains("unsafe"), "{head}");
        // Nothing is fetched from anywhere else, and nothing stands in the page that its policy
        // forbids.
        let foreign = body.replace("http://www.w3.org/2000/svg", "");
        assert!(!foreign.contains("://") && !body.contains(" style="), "{path}");
    }
    assert_eq!(get(&address, "/nothing", "").0, 404);
    let post = format!(
        "POST / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    );
    assert_eq!(ask(&address, &post).0, 405);
    let evil = "GET / HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    assert_eq!(ask(&address, evil).0, 421);
    let large = format!("x-long: {}\r\n", "x".repeat(64 << 10));
    assert_eq!(get(&address, "/", &large).0, 431);
    assert_eq!(ask(&address, "\x16\x03\x01nonsense\r\n\r\n").0, 400);
}

#[test]
fn with_a_token_nothing_is_told_to_those_who_do_not_know_it() {
    let pair = Pair::start();
    let file = pair.directory.path().join("web.token");
    std::fs::write(&file, TOKEN).unwrap();
    let (_web, address) = pair.web(&["--token-file", file.to_str().unwrap()]);
    for path in ["/api/view", "/metrics"] {
        let (status, head, body) = get(&address, path, "");
        assert!(status == 401 && head.contains("www-authenticate: Bearer"), "{head}");
        assert!(!body.contains("drone"));
        assert_eq!(get(&address, path, &format!("authorization: Bearer {TOKEN}\r\n")).0, 200);
    }
    let (status, _, page) = get(&address, "/", "");
    assert!(status == 401 && page.contains("<form method=\"post\""));
    let login = |token: &str| {
        let body = format!("token={token}");
        let head =
            format!("host: {address}\r\nconnection: close\r\ncontent-length: {}", body.len());
        ask(&address, &format!("POST /login HTTP/1.1\r\n{head}\r\n\r\n{body}"))
    };
    let (status, _, page) = login("wrong");
    assert!(status == 401 && page.contains("not the token"));
    let (status, head, _) = login(TOKEN);
    assert_eq!(status, 303, "{head}");
    let cookie = head.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap();
    assert_eq!(get(&address, "/", &format!("cookie: {cookie}\r\n")).0, 200);
    assert_eq!(get(&address, "/", "cookie: fulmar=guess\r\n").0, 401);
    // Guesses are told to wait, and keep out nobody who knows the token: who guesses may share an
    // address with others, or be a page in the operator's own browser.
    for _ in 0..10 {
        login("wrong");
    }
    assert_eq!(login("wrong").0, 429);
    assert_eq!(get(&address, "/metrics", &format!("authorization: Bearer {TOKEN}\r\n")).0, 200);
    assert_eq!(get(&address, "/", &format!("cookie: {cookie}\r\n")).0, 200, "who is in stays in");
    assert_eq!(login(TOKEN).0, 303);
}

#[test]
fn another_page_in_the_operators_browser_is_refused() {
    let pair = Pair::start();
    let (_web, address) = pair.web(&[]);
    let post = |more: &str| {
        let head = format!("host: {address}\r\nconnection: close\r\n{more}content-length: 7");
        ask(&address, &format!("POST /login HTTP/1.1\r\n{head}\r\n\r\ntoken=x")).0
    };
    assert_eq!(post(""), 303, "a program");
    assert_eq!(post(&format!("origin: http://{address}\r\n")), 303);
    for foreign in
        ["origin: http://evil.example\r\n", "origin: null\r\n", "sec-fetch-site: cross-site\r\n"]
    {
        assert_eq!(post(foreign), 403, "{foreign}");
    }
    let framed = "sec-fetch-site: cross-site\r\nsec-fetch-dest: iframe\r\n";
    assert_eq!(get(&address, "/api/view", framed).0, 403);
    let (status, head, _) =
        get(&address, "/", "sec-fetch-site: cross-site\r\nsec-fetch-dest: document\r\n");
    assert!(
        status == 200 && head.contains("x-frame-options: DENY"),
        "a link may lead here: {head}"
    );
}

#[test]
fn who_holds_connections_open_keeps_nobody_from_metrics() {
    let pair = Pair::start();
    let (_web, address) = pair.web(&[]);
    let revision = |body: &str| serde_json::from_str::<Value>(body).unwrap()["revision"].clone();
    let held: Vec<TcpStream> = (0..300)
        .map(|number| {
            let mut stream = TcpStream::connect(&address).unwrap();
            // Nothing, a part of a head, a body that does not come, and a wait for news.
            let news = format!(
                "GET /api/view?revision={} HTTP/1.1\r\nhost: {address}\r\n\r\n",
                number % 7
            );
            let body =
                format!("POST /login HTTP/1.1\r\nhost: {address}\r\ncontent-length: 9\r\n\r\n");
            let _ = stream.write_all(["", "GET / HT", &body, &news][number % 4].as_bytes());
            if number % 60 == 59 {
                assert_eq!(get(&address, "/metrics", "").0, 200, "beside {number}");
                let (status, _, view) = get(&address, "/api/view", "");
                assert!(status == 200 && revision(&view).is_u64());
            }
            stream
        })
        .collect();
    drop(held);
}

#[test]
fn only_the_proxy_is_believed_and_let_in_where_it_is_named() {
    let pair = Pair::start();
    let file = pair.directory.path().join("web.token");
    std::fs::write(&file, TOKEN).unwrap();
    let token = ["--token-file", file.to_str().unwrap()];
    let (_web, address) =
        pair.web(&[&token[..], &["--behind-proxy", "--proxy", "192.0.2.5"]].concat());
    let guess = |address: &str, from: &str| {
        get(
            address,
            "/metrics",
            &format!("x-forwarded-for: {from}\r\nauthorization: Bearer wrong\r\n"),
        )
        .0
    };
    // A proxy of this computer: its clients are told apart.
    (0..10).for_each(|_| assert_eq!(guess(&address, "198.51.100.7"), 401));
    assert_eq!(guess(&address, "198.51.100.7"), 429);
    assert_eq!(guess(&address, "198.51.100.8"), 401);
}

/// Runs promtool; none where there is none.
fn promtool(name: &str, arguments: &[&str], input: &str) -> Option<String> {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            skip(name, &format!("promtool: {error} (Debian: prometheus)"));
            return None;
        }
    };
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let fed = std::thread::spawn(move || _ = stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    fed.join().unwrap();
    let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{told}");
    Some(told)
}

#[test]
fn promtool_has_nothing_to_say_of_the_metrics() {
    let pair = Pair::start();
    let (_web, address) = pair.web(&[]);
    let metrics = wait_for(|| {
        let metrics = get(&address, "/metrics", "").2;
        let works = metrics.lines().filter(|line| line.contains("state=\"active\"")).count();
        (works == 2).then_some(metrics)
    });
    assert!(metrics.contains("fulmar_up{daemon=\"station\"} 1"));
    let name = "promtool_has_nothing_to_say_of_the_metrics";
    if let Some(told) = promtool(name, &["check", "metrics"], &metrics) {
        assert_eq!(told, "");
    }
}

#[test]
fn promtool_accepts_the_shipped_rules_and_they_speak_when_they_should() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/prometheus");
    let file = |name: &str| directory.join(name).display().to_string();
    let name = "promtool_accepts_the_shipped_rules_and_they_speak_when_they_should";
    if let Some(told) = promtool(name, &["check", "rules", &file("alerts.yml")], "") {
        assert!(told.contains("SUCCESS"), "{told}");
        promtool(name, &["test", "rules", &file("alerts-test.yml")], "");
        promtool(name, &["check", "config", "--syntax-only", &file("prometheus.yml")], "");
    }
}

#[test]
fn the_page_pairs_for_who_knows_its_token_and_for_no_foreign_page() {
    let pair = Pair::start();
    let at = |name: &str| pair.directory.path().join(name).display().to_string();
    std::fs::write(at("pairing.token"), TOKEN).unwrap();
    let arguments = ["--pairing-token-file", &at("pairing.token"), "--config", &at("station.toml")];
    let (web, address) = pair.web(&arguments);
    let own = format!("origin: http://{address}\r\n");
    let show = || ask_to_pair(&address, TOKEN, "show", &own).1["state"].clone();

    // A foreign page in the operator's browser, even one that knew the token.
    let others = ["", "origin: http://evil.example\r\n", "origin: null\r\n"].map(str::to_owned);
    let site = format!("{own}sec-fetch-site: cross-site\r\n");
    let two = format!("{own}origin: http://evil.example\r\n");
    for more in others.into_iter().chain([site, two]) {
        assert_eq!(ask_to_pair(&address, TOKEN, "begin", &more).0, 403, "{more}");
    }
    let length = "content-length: 0\r\n";
    let (status, ..) = get(&address, &format!("/api/pairing?token={TOKEN}&do=begin"), &own);
    assert_eq!(status, 404, "what is only read changes nothing");
    let rebound = format!(
        "POST /api/pairing HTTP/1.1\r\nhost: evil.example\r\norigin: http://evil.example\r\n{length}\r\n"
    );
    assert_eq!(ask(&address, &rebound).0, 421);
    assert_eq!(ask_to_pair(&address, "a wrong one, of 24 bytes", "begin", &own).0, 403);
    assert_eq!(show(), "none", "none of them had a code made");

    let (status, begun) = ask_to_pair(&address, TOKEN, "begin", &own);
    assert_eq!((status, &begun["state"]), (200, &Value::from("open")), "{begun}");
    let code = begun["code"].as_str().unwrap();
    assert_eq!(ask_to_pair(&address, TOKEN, "begin", &own).1["code"], code, "one at a time");
    let (_, _, view) = get(&address, "/api/view", "");
    assert!(view.contains("\"pairing\":true") && !view.contains(&code[..11]), "{view}");
    assert_eq!(ask_to_pair(&address, TOKEN, "end", &own).1["state"], "none");

    // An ended code is none, and a used one is told of.
    let join = |code: &str| {
        let mut command = fulmar();
        command.args(["pair", "--no-tunnel", "--wait", "8s", "--config"]).arg(at("bravo.toml"));
        command.arg(code).output().unwrap().status.success()
    };
    fulmar().args(["keygen", "--out"]).arg(at("bravo.key")).output().unwrap();
    let text =
        "role = \"drone\"\nprivate_key_file = \"bravo.key\"\nstatus.socket = \"bravo.sock\"\n";
    std::fs::write(at("bravo.toml"), text).unwrap();
    assert!(!join(code), "a code that was ended");
    let (_, begun) = ask_to_pair(&address, TOKEN, "begin", &own);
    assert!(join(begun["code"].as_str().unwrap()));
    let told = wait_for(|| {
        let (_, shown) = ask_to_pair(&address, TOKEN, "show", &own);
        (shown["state"] == "ended").then_some(shown)
    });
    assert_eq!(told["code"], Value::Null, "{told}");
    let enrolled = told["events"].as_array().unwrap().iter().find(|it| it["event"] == "enrolled");
    let from = enrolled.and_then(|it| it["from"].as_str()).unwrap();
    assert!(from.starts_with("127.0.0.1:"), "{told}");

    // The code of a page that is killed is none any more.
    let (_, begun) = ask_to_pair(&address, TOKEN, "begin", &own);
    drop(web);
    assert!(!join(begun["code"].as_str().unwrap()), "the page is gone");
    // And a page that was not told to pair does not.
    let (_web, address) = pair.web(&[]);
    let own = format!("origin: http://{address}\r\n");
    assert_eq!(ask_to_pair(&address, TOKEN, "begin", &own).0, 405);
}

#[test]
fn the_terminal_screen_gives_the_terminal_back_and_ends_with_it() {
    let name = "the_terminal_screen_gives_the_terminal_back_and_ends_with_it";
    if Command::new("script").arg("--version").output().is_err() {
        return skip(name, "no program script (util-linux), which makes a terminal");
    }
    let pair = Pair::start();
    let on_a_terminal = || {
        let top = format!(
            "{} top --socket {}",
            env!("CARGO_BIN_EXE_fulmar"),
            pair.socket("station").display()
        );
        let mut command = Command::new("script");
        command.args([
            "-qfc",
            &format!("stty rows 5 cols 20; echo pid $$; exec {top}"),
            "/dev/null",
        ]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script = Killed(command.spawn().unwrap());
        let mut shown = BufReader::new(script.0.stdout.take().unwrap());
        let mut line = String::new();
        shown.read_line(&mut line).unwrap();
        let top = line.trim().trim_start_matches("pid ").to_owned();
        // The screen is on: a signal before that would only end it.
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\x1b[?1049h") {
            bytes.push(shown.by_ref().bytes().next().unwrap().unwrap());
        }
        (script, shown, top)
    };
    let (_script, mut shown, top) = on_a_terminal();
    assert!(Command::new("kill").args(["-TERM", &top]).status().unwrap().success());
    let mut rest = Vec::new();
    shown.read_to_end(&mut rest).unwrap();
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("\x1b[?1049l") && rest.contains("\x1b[?25h"), "{rest:?}");

    let (script, _shown, top) = on_a_terminal();
    drop(script);
    let is_there = || std::fs::read_to_string(format!("/proc/{top}/stat"));
    wait_for(|| is_there().map_or(true, |stat| stat.contains(") Z")).then_some(()));
}
