//! `bowline explain` and `bowline why` against a running server: their answer is what the server then does.

use crate::operator_tables::connect;
use crate::rig::{Server, text};
use std::os::unix::fs::PermissionsExt;
use testing::{Missing, is_root, skip};

/// The last step and the exit status.
fn last(server: &Server, args: &[&str]) -> (String, String, Option<i32>) {
    let output = server.ask(&[&["explain", "--json"], args].concat());
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let step = answer["steps"].as_array().unwrap().last().unwrap();
    assert_eq!(answer["allowed"], step["result"] != "no", "{answer}");
    let field = |name: &str| step[name].as_str().unwrap().to_owned();
    (format!("{} {}", field("step"), field("result")), field("text"), output.status.code())
}

#[test]
fn explain_names_the_deciding_step() {
    if !is_root() {
        return skip(Missing::Root, "an ordinary user's server maps all users to its own");
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    std::fs::create_dir_all(tree.join("closed")).unwrap();
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(dir.path(), 0o755);
    mode(&tree, 0o755);
    mode(&tree.join("closed"), 0o700);
    let exports = dir.path().join("exports");
    let lines = format!("{0} 127.0.0.1(rw) 192.0.2.0/24(ro,sec=none)\n", tree.display());
    std::fs::write(&exports, lines).unwrap();
    let server = Server::start(&["--exports", exports.to_str().unwrap()]);
    let path = tree.to_str().unwrap();
    let closed = format!("{path}/closed");
    let asked = |args: &[&str]| last(&server, args);

    assert_eq!(asked(&["127.0.0.1", path]).2, Some(0));
    let (step, said, status) = asked(&["127.0.0.1", &closed, "4711", "--group", "4712"]);
    assert_eq!((step.as_str(), status), ("object no", Some(1)), "{said}");
    assert!(said.contains("drwx------ 0:0 gives 4711:4712 no right"), "{said}");
    assert_eq!(asked(&["127.0.0.1", path, "--port", "40000"]).0, "port no");
    assert_eq!(asked(&["192.0.2.1", path]).0, "flavour no");
    let (step, said, _) = asked(&["198.51.100.1", path]);
    assert!(step == "client no" && said.contains("127.0.0.1 192.0.2.0/24"), "{said}");
    assert_eq!(asked(&["127.0.0.1", "/nowhere"]).0, "export no");
    let page = text(&server.ask(&["explain", "127.0.0.1", path]).stdout);
    assert!(page.contains(&format!("{}:1: {path}", exports.display())), "{page}");
}

#[test]
fn why_lists_refusals() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&[&format!("there={}", dir.path().display())]);
    assert!(text(&server.ask(&["why"]).stdout).contains("nothing was refused"));
    assert!(connect(&server).mount(b"/not/there").is_err());
    let rows = server.json("why");
    assert_eq!(rows[0]["path"], "/not/there", "{rows}");
    assert_eq!(rows[0]["reason"], "no such export", "{rows}");
    assert_eq!(rows[0]["count"], 1, "{rows}");
}
