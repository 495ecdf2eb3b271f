//! Runs in directories of their own; what the kernel is asked is recorded.

mod figures;
mod generated;
mod passes;
mod recorder;
mod rules;
mod runs;
mod trees;

use std::path::Path;

use strata_wml::Options;
use tempfile::TempDir;

use super::content::Content;
use super::report::{FlowopReport, Report};
use super::run::execute;
use super::{Request, Stage, SystemCommands, check_text};
use recorder::Recorder;

fn request(directory: &Path) -> Request {
    Request {
        file: "test".to_owned(),
        dialect: None,
        set: Vec::new(),
        directory: directory.to_owned(),
        seconds: None,
        seed: None,
        layout_seed: None,
        stage: Stage::All,
        content: Content::Zeros,
        fixes: Vec::new(),
        allowed: Vec::new(),
        system: SystemCommands::Refuse,
        cpu_per_flowop: false,
        stuck_after_s: 300,
        json: true,
    }
}

fn temporary() -> TempDir {
    tempfile::tempdir().expect("works")
}

/// A program with `before`, `flowops` in one thread, and an end.
fn around(directory: &Path, before: &str, flowops: &str) -> String {
    format!(
        "{before}\ndefine fileset name=set,path=\"{}\",entries=8,dirwidth=20,size=10k,prealloc=50,leafdirs=4\n\
         define process name=p {{ thread name=t {{\n{flowops}\n}} }}\nset mode quit firstdone\nrun 20\n",
        directory.display()
    )
}

fn ran_with(directory: &Path, program: &str, change: impl FnOnce(&mut Request), system: Recorder) -> Report {
    let mut request = request(directory);
    change(&mut request);
    let real = directory.canonicalize().expect("works");
    let checked = check_text(
        "test",
        program,
        &Options { directory: Some(real.display().to_string()), set: request.set.clone(), ..Options::default() },
    );
    execute(&request, &real, checked.expect("is right"), system, || ()).expect("begins")
}

fn ran(directory: &Path, program: &str) -> Report {
    ran_with(directory, program, |_| {}, Recorder::default())
}

fn flowop<'a>(report: &'a Report, name: &str) -> &'a FlowopReport {
    report.flowops.iter().find(|flowop| flowop.name == name).expect("is there")
}
