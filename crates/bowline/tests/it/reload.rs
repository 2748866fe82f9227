//! Exports and the configuration are read again while the server runs: all of them or none.

use crate::rig::{Server, is_root, text, told};
use client::Client;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The limit on waiting for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_reload_is_all_or_nothing() {
    let base = tempfile::tempdir().unwrap();
    let (one, two) = (base.path().join("one"), base.path().join("two"));
    std::fs::create_dir(&one).unwrap();
    std::fs::create_dir(&two).unwrap();
    let file = base.path().join("exports");
    let line = |dir: &Path, options: &str| format!("{} *({options})\n", dir.display());
    std::fs::write(&file, line(&one, "ro")).unwrap();
    let server = Server::start(&["--exports", file.to_str().unwrap()]);
    assert_eq!(server.json("exports").as_array().unwrap().len(), 2);

    std::fs::write(&file, line(&one, "rw") + &line(&two, "ro")).unwrap();
    let output = server.ask(&["reload"]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for part in [one.to_str().unwrap(), two.to_str().unwrap(), "applied: 3 exports"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(text(&server.ask(&["reload"]).stdout).contains("nothing changed"));

    std::fs::write(&file, line(&one, "rw") + &line(&two, "quick")).unwrap();
    let error = told(&server.ask(&["reload"]), 1);
    assert!(error.contains("exports:2:") && error.contains("quick"), "{error}");
    assert_eq!(server.json("exports").as_array().unwrap().len(), 3);

    std::fs::write(&file, line(&two, "ro")).unwrap();
    server.signal("-HUP");
    let begun = Instant::now();
    while server.json("exports").as_array().unwrap().len() != 2 {
        assert!(begun.elapsed() < PATIENCE, "SIGHUP reads them again");
    }
}

/// A disk that was mounted after the server was started; or a directory that was made anew, for which
/// it takes no privilege.
#[test]
fn a_reload_serves_a_newly_mounted_directory() {
    let base = tempfile::tempdir().unwrap();
    let (file, served) = (base.path().join("exports"), base.path().join("disk"));
    std::fs::create_dir(&served).unwrap();
    std::fs::write(served.join("hello.txt"), "").unwrap();
    std::fs::write(&file, format!("{} *(rw,insecure)\n", served.display())).unwrap();
    let server = Server::start(&["--exports", file.to_str().unwrap()]);
    let at = ([127, 0, 0, 1], server.port).into();
    let found = |name: &[u8]| {
        let mut client = Client::tcp(at, PATIENCE).unwrap();
        let root = client.mount(served.to_str().unwrap().as_bytes()).unwrap();
        client.lookup(&root, name).is_ok()
    };
    assert!(found(b"hello.txt"));
    std::fs::rename(&served, base.path().join("before")).unwrap();
    std::fs::create_dir(&served).unwrap();
    std::fs::write(served.join("disk.txt"), "").unwrap();
    let shown = text(&server.ask(&["reload"]).stdout);
    assert!(shown.contains("is a different directory now"), "{shown}");
    assert!(found(b"disk.txt") && !found(b"hello.txt"));
    assert!(text(&server.ask(&["reload"]).stdout).contains("nothing changed"));
    if is_root() {
        let mount = |args: &[&str]| Command::new(args[0]).args(&args[1..]).arg(&served).status();
        assert!(mount(&["mount", "-t", "tmpfs", "none"]).unwrap().success());
        std::fs::write(served.join("mounted.txt"), "").unwrap();
        assert!(text(&server.ask(&["reload"]).stdout).contains("is a different directory now"));
        let is_found = found(b"mounted.txt");
        assert!(mount(&["umount", "-l"]).unwrap().success());
        assert!(is_found);
    }
}

#[test]
fn a_directory_of_exports_files_is_one_transaction() {
    let base = tempfile::tempdir().unwrap();
    let dir = |name: &str| {
        std::fs::create_dir_all(base.path().join(name)).unwrap();
        base.path().join(name).to_str().unwrap().to_owned()
    };
    let (one, two, more) = (dir("one"), dir("two"), dir("exports.d"));
    let file = dir("etc") + "/exports";
    let write = |name: &str, text: String| std::fs::write(format!("{more}/{name}"), text).unwrap();
    std::fs::write(&file, "").unwrap();
    write("b.exports", format!("{one} *(ro)\n"));
    let server = Server::start(&["--exports", &file, "--exports", &more]);
    let count = || server.json("exports").as_array().unwrap().len();
    assert_eq!(count(), 2);
    write("c.exports", format!("{two} *(ro)\n"));
    write("d.exports", "\n/usr *(ro,fast)\n".to_owned());
    let refused = told(&server.ask(&["reload"]), 1);
    assert!(refused.contains("exports.d/d.exports:2:11: unknown option fast"), "{refused}");
    assert_eq!(count(), 2, "nothing of c.exports");
    std::fs::rename(format!("{more}/d.exports"), format!("{more}/d.off")).unwrap();
    let shown = text(&server.ask(&["reload"]).stdout);
    assert!(shown.contains(&two) && shown.contains("applied: 3 exports"), "{shown}");
    std::fs::remove_dir_all(&more).unwrap();
    let refused = told(&server.ask(&["reload"]), 1);
    assert!(refused.contains("cannot read") && refused.contains("exports.d"), "{refused}");
    assert_eq!(count(), 3);
}

#[test]
fn read_only_applies_to_an_exports_file() {
    let base = tempfile::tempdir().unwrap();
    let file = base.path().join("exports");
    let line = |options| format!("{} *({options})\n", base.path().display());
    std::fs::write(&file, line("rw")).unwrap();
    let server = Server::start(&["--exports", file.to_str().unwrap(), "--read-only"]);
    let shown = server.lines.concat();
    assert!(shown.contains("(ro,") && !shown.contains("(rw,"), "{shown}");
    let all_read_only = || {
        let rows = server.json("exports");
        let rows = rows.as_array().unwrap().clone();
        let options = |row: &serde_json::Value| row["rules"][0]["options"].to_string();
        rows.len() == 2 && rows.iter().all(|row| options(row).starts_with("\"ro,"))
    };
    assert!(all_read_only());
    std::fs::write(&file, line("rw,async")).unwrap();
    assert!(text(&server.ask(&["reload"]).stdout).contains("async"));
    assert!(all_read_only(), "after a reload");
}

#[test]
fn a_reload_reads_the_configuration() {
    let base = tempfile::tempdir().unwrap();
    let (config, exports) = (base.path().join("b.toml"), base.path().join("exports"));
    std::fs::write(&exports, format!("{} *(rw)\n", base.path().display())).unwrap();
    std::fs::write(&config, "client = '10.0.0.0/8'\n").unwrap();
    let server = Server::start(&["--config", config.to_str().unwrap()]);
    assert!(text(&server.ask(&["reload"]).stdout).contains("nothing changed"));

    let text_now = "client = '10.0.0.0/8'\nexports = 'exports'\nread-only = true\n";
    std::fs::write(&config, text_now).unwrap();
    let shown = text(&server.ask(&["reload"]).stdout);
    assert!(shown.contains("applied: 2 exports") && !shown.contains("note"), "{shown}");
    let rules = |row: &serde_json::Value| row["rules"].to_string();
    let rows = server.json("exports");
    assert!(rows.as_array().unwrap().iter().all(|row| rules(row).contains("\"ro,")), "{rows}");

    let other = "client = '*'\nlisten = '127.0.0.2'\n[set]\nmax-read = '64K'\n";
    std::fs::write(&config, other).unwrap();
    let shown = text(&server.ask(&["reload"]).stdout);
    for part in ["applied: 1 export", "a new value of listen: restart", "`bowline set`"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let rows = server.json("exports");
    assert!(rules(&rows[0]).contains("\"*\"") && rules(&rows[0]).contains("\"rw,"), "{rows}");

    std::fs::write(&config, "client = 3\n").unwrap();
    let error = told(&server.ask(&["reload"]), 1);
    assert!(error.contains("b.toml:1:10: "), "{error}");
}
