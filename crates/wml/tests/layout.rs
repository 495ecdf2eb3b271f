//! Trees equal those that the reference script of the project's notes computes, to the byte.

use std::sync::Arc;

use strata_wml::{
    Dialect, Distribution, Fileset, Number, Options, Rand, Shape, Stream, Streams, Tree, lay_out, parse, resolve,
};

fn gamma(mean: f64, shape: f64) -> Number {
    Number::Random(Arc::new(Distribution {
        id: 1,
        shape: Shape::Gamma { min: 0.0, mean, shape },
        round: 0.0,
        least: Some(f64::MIN_POSITIVE),
        most: None,
        stream: Stream::Layout,
    }))
}

fn fileset(entries: u64, width: u64, size: Number) -> Fileset {
    Fileset {
        name: "set".to_owned(),
        path: "/tmp".to_owned(),
        single: false,
        entries,
        size,
        dirwidth: Number::Whole(width),
        dirgamma: 1500,
        dirdepth: None,
        leafdirs: 0,
        prealloc: 80,
        paralloc: false,
        reuse: false,
        trusttree: false,
        readonly: false,
        writeonly: false,
    }
}

fn told(name: &str, tree: &Tree) -> String {
    let mut sizes: Vec<u64> = tree.files.iter().map(|file| file.bytes).collect();
    sizes.sort_unstable();
    format!(
        "{name} files {} dirs {} {:.3}MB min {} med {} max {} over1M {}",
        sizes.len(),
        tree.directories.len(),
        tree.bytes() as f64 / 1_048_576.0,
        sizes[0],
        sizes[sizes.len() / 2],
        sizes[sizes.len() - 1],
        sizes.iter().filter(|&&size| size > 1 << 20).count()
    )
}

#[test]
fn the_shipped_workloads_have_their_published_trees() {
    let mut lines = Vec::new();
    let mut streams = Streams::new(None);
    lines.push(told("varmail", &lay_out(&fileset(1000, 1_000_000, gamma(16384.0, 1.5)), &mut streams).expect("works")));
    let mut streams = Streams::new(None);
    lines.push(told("fileserver", &lay_out(&fileset(10_000, 20, gamma(131_072.0, 1.5)), &mut streams).expect("works")));
    // One stream for both filesets of one program.
    let mut streams = Streams::new(None);
    lines.push(told("web-log", &lay_out(&fileset(1, 20, gamma(16384.0, 1.5)), &mut streams).expect("works")));
    lines.push(told("web-big", &lay_out(&fileset(1000, 20, gamma(16384.0, 1.5)), &mut streams).expect("works")));
    for files in [1000, 10_000] {
        let mut rand = Rand::new(1);
        let limit = (u64::from(Rand::MAX) * 20 / 100) as u32;
        let existing = (0..files).filter(|_| rand.number() > limit).count();
        lines.push(format!("prealloc 80% of {files} : {existing}"));
    }
    let kept: Vec<&str> = include_str!("fixtures/layout-vectors.txt").lines().collect();
    assert_eq!(lines, kept);
}

#[test]
fn other_trees_are_those_of_the_script() {
    for line in include_str!("fixtures/layout-trees.txt").lines().filter(|line| !line.starts_with('#')) {
        let (given, expected) = line.split_once(" | ").expect("two parts");
        let given: Vec<f64> = given.split(' ').map(|number| number.parse().expect("a number")).collect();
        let mut set = fileset(given[0] as u64, given[1] as u64, gamma(given[2], given[3]));
        set.dirgamma = (given[4] * 1000.0) as u64;
        let tree = lay_out(&set, &mut Streams::new(None)).expect("works");
        let (first, last) = (tree.files[0].bytes, tree.files[tree.files.len() - 1].bytes);
        let told = format!("{} {} {} {first} {last}", tree.files.len(), tree.directories.len(), tree.bytes());
        assert_eq!(told, expected, "{line}");
    }
}

#[test]
fn a_plain_size_is_a_mean_in_the_old_dialect_and_a_constant_in_the_new_one() {
    let text = "define fileset name=a,path=/tmp,entries=1000,dirwidth=1000000,size=16k,prealloc=80\n\
                define process name=p { thread name=t { flowop statfile name=s,filesetname=a } } run 1";
    let bytes = |dialect| {
        let (script, findings) = parse(text);
        let options = Options { dialect: Some(dialect), ..Options::default() };
        let program = resolve(&script, findings, &options).program.expect("is right");
        lay_out(&program.filesets[0], &mut Streams::new(None)).expect("works").bytes()
    };
    assert_eq!(bytes(Dialect::V1_5), 1000 << 14);
    assert_eq!(format!("{:.3}", bytes(Dialect::V1_4_9) as f64 / 1_048_576.0), "14.959");
}

#[test]
fn a_file_lies_two_deep() {
    let set = Fileset { single: true, dirgamma: 0, ..fileset(1, 10, Number::Whole(5)) };
    let tree = lay_out(&set, &mut Streams::new(None)).expect("works");
    let mut path = Vec::new();
    tree.write_file(0, &mut path);
    assert_eq!(path, b"/00000001/00000001");
    assert_eq!(tree.files[0].bytes, 5);
}

#[test]
fn every_path_is_another_one() {
    let set = Fileset { leafdirs: 300, ..fileset(2000, 5, Number::Whole(0)) };
    let tree = lay_out(&set, &mut Streams::new(Some(9))).expect("works");
    assert_eq!((tree.files.len(), tree.leaf_directories.len()), (2000, 300));
    let mut paths = std::collections::BTreeSet::new();
    for index in 0..tree.files.len() as u32 {
        let mut path = Vec::new();
        tree.write_file(index, &mut path);
        assert!(paths.insert(path));
    }
    for index in 0..tree.directories.len() as u32 {
        let mut path = Vec::new();
        tree.write_directory(index, &mut path);
        assert!(paths.insert(path));
    }
    for index in 0..tree.leaf_directories.len() as u32 {
        let mut path = Vec::new();
        tree.write_leaf_directory(index, &mut path);
        assert!(paths.insert(path));
    }
}

#[test]
fn a_seed_makes_another_tree() {
    let set = fileset(500, 20, gamma(16384.0, 1.5));
    let bytes = |seed| lay_out(&set, &mut Streams::new(seed)).expect("works").bytes();
    assert_eq!(bytes(Some(4)), bytes(Some(4)));
    assert_ne!(bytes(Some(4)), bytes(Some(5)));
    assert_ne!(bytes(Some(4)), bytes(None));
}

#[test]
fn directories_without_end_are_refused() {
    let error = lay_out(&fileset(100, 1, Number::Whole(1)), &mut Streams::new(None)).expect_err("refused");
    assert!(error.to_string().ends_with("give it at least 2."), "{error}");
    // Without a width every file has a directory of its own.
    let tree = lay_out(&fileset(100, 0, Number::Whole(1)), &mut Streams::new(None)).expect("works");
    assert_eq!((tree.files.len(), tree.directories.len()), (100, 101));
}

#[test]
fn a_file_takes_less_than_64_bytes_of_memory() {
    let tree = lay_out(&fileset(1_000_000, 20, Number::Whole(1)), &mut Streams::new(None)).expect("works");
    let bytes = tree.files.capacity() * size_of::<strata_wml::File>()
        + tree.directories.capacity() * size_of::<strata_wml::Directory>();
    // Beside the tree, the population takes four bytes and three bits for each file.
    assert!(bytes / tree.files.len() + 5 < 64, "{bytes}");
}

#[test]
fn directories_that_never_get_an_entry_are_no_hang() {
    let mut set = fileset(10, 0, gamma(1.0, 1.5));
    let never = Shape::Normal { mean: -5.0, sigma: 1.0 };
    set.dirwidth = Number::Random(Arc::new(Distribution {
        id: 1,
        shape: never,
        round: 0.0,
        least: Some(f64::MIN_POSITIVE),
        most: None,
        stream: Stream::Free,
    }));
    let why = lay_out(&set, &mut Streams::new(None)).expect_err("has no end").0;
    assert!(why.contains("give it a dirwidth above 0"), "{why}");
}

#[test]
fn sizes_beyond_what_a_number_holds_do_not_come_round_to_small_ones() {
    let tree = lay_out(&fileset(3, 20, Number::Whole(u64::MAX)), &mut Streams::new(None)).expect("works");
    assert_eq!(tree.bytes(), u64::MAX);
}
