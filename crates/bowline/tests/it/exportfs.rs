//! `bowline exportfs` as scripts call exportfs(8): what it changes is what clients get.

use crate::rig::{BOWLINE, Server, bowline, free_port, text, told};
use client::Client;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// Whether this machine may mount a directory.
fn mounts(server: &Server, dir: &Path) -> bool {
    let addr = ([127, 0, 0, 1], server.port).into();
    let mut client = Client::tcp(addr, Duration::from_secs(60)).unwrap();
    client.mount(dir.to_str().unwrap().as_bytes()).is_ok()
}

#[test]
fn exports_are_added_listed_and_ended() {
    let base = tempfile::tempdir().unwrap();
    let (listed, added) = (base.path().join("listed"), base.path().join("added"));
    std::fs::create_dir(&listed).unwrap();
    std::fs::create_dir(&added).unwrap();
    let file = base.path().join("exports");
    std::fs::write(&file, format!("{} *(insecure)\n", listed.display())).unwrap();
    let server = Server::start(&["--exports", file.to_str().unwrap()]);
    let link = base.path().join("exportfs");
    std::os::unix::fs::symlink(BOWLINE, &link).unwrap();
    let exportfs = |args: &[&str]| -> Output {
        let control = server.control();
        Command::new(&link).args(args).arg("--control").arg(control).output().unwrap()
    };
    let works = |args: &[&str]| {
        let output = exportfs(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    assert!(mounts(&server, &listed) && !mounts(&server, &added));
    let name = |client: &str| format!("{client}:{}", added.display());
    assert_eq!(works(&["-o", "rw,insecure", &name("127.0.0.0/8")]), "");
    assert!(mounts(&server, &added));
    works(&["-o", "ro,insecure", &name("192.0.2.7")]);
    let list = works(&["-v"]);
    assert!(list.contains("\t127.0.0.0/8(rw,") && list.contains("\t192.0.2.7(ro,"), "{list}");
    assert!(list.contains("\t<world>("), "{list}");
    // the list in the file's format, checked as a file
    let copy = base.path().join("copy");
    let lines = works(&["-s"]);
    let lines = lines.lines().filter(|line| !line.contains("localhost"));
    std::fs::write(&copy, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let checked = bowline(&["check", copy.to_str().unwrap()]);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    // one client, then the other
    assert!(works(&["-vu", &name("127.0.0.0/8")]).contains("applied"));
    assert!(!mounts(&server, &added));
    told(&exportfs(&["-u", &name("127.0.0.0/8")]), 1);
    works(&["-o", "insecure", &name("")]);
    assert!(mounts(&server, &added));
    // a reload is what the file says, and the directory of the command line
    works(&["-ra"]);
    assert!(mounts(&server, &listed) && !mounts(&server, &added));
    works(&["-ua"]);
    assert!(!mounts(&server, &listed));
    assert_eq!(works(&[]), "");
    works(&["-a"]);
    assert!(mounts(&server, &listed));
    let error = told(&exportfs(&["-o", "wr", &name("*")]), 1);
    assert!(error.contains("wr"), "{error}");
    let error = told(&exportfs(&[&format!("*:{}/none", base.path().display())]), 1);
    assert!(error.contains("does not exist"), "{error}");
    told(&exportfs(&["-u"]), 2);
    told(&exportfs(&["host"]), 2);
}

#[test]
fn a_directory_that_is_missing_holds_no_other_up() {
    let base = tempfile::tempdir().unwrap();
    let added = base.path().join("added");
    std::fs::create_dir(&added).unwrap();
    let file = base.path().join("exports");
    std::fs::write(&file, format!("{}/gone *(insecure)\n", base.path().display())).unwrap();
    let server = Server::start(&["--exports", file.to_str().unwrap()]);
    let name = format!("*:{}", added.display());
    let output = server.ask(&["exportfs", "-o", "insecure", &name]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(mounts(&server, &added));
    assert_eq!(server.json("status")["waiting_exports"].as_array().unwrap().len(), 1);
}

#[test]
fn without_a_server_what_its_start_will_do_succeeds() {
    let control = format!("/tmp/bowline-none-{}", free_port());
    for (args, status) in [
        (&["-ra"][..], 0),
        (&["-a"], 0),
        (&["-ua"], 0),
        (&["-f"], 0),
        (&["-v"], 1),
        (&["-o", "rw", "*:/tmp"], 1),
        (&["-u", "*:/tmp"], 1),
    ] {
        let output = bowline(&[&["exportfs", "--control", &control], args].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
        assert_eq!(said.is_empty(), args == ["-f"], "{args:?}: {said}");
    }
}
