//! Reading, printing and checking.

use proptest::prelude::*;
use strata_wml::ast::{
    Assigned, At, Attribute, AttributeValue, Command, FlowopNode, Mode, Operator, Script, ThreadNode, Value,
};
use strata_wml::{
    Action, Dialect, EndMode, Number, Options, Program, Severity, Shape, Type, parse, print, render, resolve,
};

/// Every form of the language, each a text of its own.
const FORMS: &str = include_str!("fixtures/forms.txt");

fn forms() -> Vec<&'static str> {
    FORMS.split("----\n").collect()
}

fn checked(text: &str, options: &Options) -> Result<Program, String> {
    let (script, findings) = parse(text);
    let resolved = resolve(&script, findings, options);
    resolved.program.ok_or_else(|| render("x.f", text, &resolved.findings))
}

fn program(text: &str) -> Program {
    checked(text, &Options::default()).unwrap_or_else(|shown| panic!("{shown}"))
}

fn refused(text: &str) -> String {
    checked(text, &Options::default()).expect_err("is wrong")
}

/// A program around some flowops.
fn around(before: &str, flowops: &str) -> String {
    format!(
        "{before}\ndefine fileset name=set,path=/tmp,entries=10,dirwidth=20\n\
         define process name=p {{ thread name=t,memsize=1m {{\n{flowops}\n}} }}\nrun 5\n"
    )
}

#[test]
fn every_form_is_read_and_printed_and_read_again() {
    for form in forms() {
        let (script, findings) = parse(form);
        let wrong: Vec<_> = findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
        assert!(wrong.is_empty(), "{}", render("form", form, &findings));
        assert!(!script.commands.is_empty(), "{form}");
        let printed = print(&script);
        let (again, findings) = parse(&printed);
        assert_eq!(script, again, "{}", render("printed", &printed, &findings));
    }
}

#[test]
fn every_error_is_shown_at_once_with_its_place() {
    let text = "set $nfiles=10\ndefine fileset name=a,path=/tmp,entries=$nfile,dirwidth=20,colour=red\n\
                define process name=p {\n  thread name=t {\n    flowop openfil name=o,filesetname=a\n\
                \x20   flowop read name=r,filesetname=b,iosize=8k\n    flowop closefile name=\n  }\n}\nrun 5\nrnu\n";
    let shown = refused(text);
    for (place, what) in [
        ("x.f:2:41", "$nfile is not set: set it before, or give it with --set nfile=VALUE; did you mean nfiles?"),
        ("x.f:2:60", "A fileset has no colour"),
        ("x.f:5:12", "openfil is no type of a flowop: did you mean openfile?"),
        ("x.f:6:36", "There is no fileset b: did you mean a?"),
        ("x.f:8:3", "Here stands '}', but a value belongs here"),
        ("x.f:11:1", "'rnu' is no command: did you mean run?"),
    ] {
        let line = shown.lines().find(|line| line.starts_with(&format!("{place}: "))).unwrap_or_default();
        assert!(line.contains(what), "{place} {what}\n{shown}");
    }
    assert_eq!(shown.matches(": error: ").count(), 6, "{shown}");
    assert!(shown.contains("    2 | define fileset name=a,path=/tmp,entries=$nfile,dirwidth=20,colour=red\n"));
    assert!(shown.contains("^^^^^^\n"), "{shown}");
}

#[test]
fn what_cannot_run_says_what_to_do() {
    for (text, what) in [
        (around("", "flowop read name=r,filesetname=set"), "give iosize"),
        (around("", "flowop read name=r,filesetname=set,iosize=2m"), "give the thread more"),
        (around("", "flowop aiowrite name=r,filesetname=set,iosize=2k"), "add random"),
        (around("", "flowop sempost name=s,value=1"), "give target=NAME"),
        (around("", "flowop sempost name=s,value=1,target=zzzzz"), "There is no flowop zzzzz"),
        (around("", "flowop opslimit name=s,target=zzzzz"), "in this thread"),
        (around("", "flowop makedir name=s,filesetname=set"), "give fileset set leafdirs"),
        (around("", "flowop openfile name=s"), "give filesetname=NAME"),
        (around("", "flowop openfile name=s,filesetname=set,fd=128"), "slots 0 to 127"),
        (around("", "flowop openfile filesetname=set"), "A flowop needs a name"),
        (around("quit", "flowop statfile name=s,filesetname=set"), "take quit out"),
        (around("set $aa=cvar(type=cvar-gama)", "flowop statfile name=s,filesetname=set"), "did you mean cvar-gamma?"),
        (
            around("set $aa=cvar(type=cvar-gamma,parameters=men:3)", "flowop statfile name=s,filesetname=set"),
            "no parameter men",
        ),
        (
            around("set $aa=randvar(type=tabular,randtable={{50,1,2},{40,3,4}})", "flowop hog name=h"),
            "make 90, not 100",
        ),
        (around("set $aa=8K", "flowop hog name=h"), "in lower case"),
        (around("set $a=8", "flowop hog name=h"), "at least two letters"),
        (around("enable multi master=a,client=b", "flowop hog name=h"), "use tenants"),
        (around("usage \"x\"\nforeach $aa in 1,2 { run 3 }", "flowop hog name=h"), "--set aa=VALUE"),
        ("run 5".to_owned(), "defines no process"),
        (
            "define process name=p { thread name=t,instances=0 { flowop hog name=h } } run 5".to_owned(),
            "no thread to run",
        ),
        ("define process name=p { thread name=t { flowop hog name=h }".to_owned(), "This '{' is not closed"),
        ("echo \"open".to_owned(), "close it with a double quote"),
    ] {
        let shown = refused(&text);
        assert!(shown.contains(what), "{what}\n{shown}");
    }
}

#[test]
fn the_dialect_is_told_from_what_only_one_has() {
    let load = "flowop read name=r,filesetname=set,iosize=8k";
    assert_eq!(program(&around("", load)).dialect, Dialect::V1_5);
    for old in [
        "usage \"x\"",
        "define randvar name=$aa,type=uniform,min=1,mean=5",
        "set $bb=2\nset $cc=$bb * 4",
        "debug 1 stats clear",
        "set $bb=2\nset $cc=$bb",
    ] {
        assert_eq!(program(&around(old, load)).dialect, Dialect::V1_4_9, "{old}");
        let new = Options { dialect: Some(Dialect::V1_5), ..Options::default() };
        assert!(checked(&around(old, load), &new).expect_err("refused").contains("--dialect 1.4.9"), "{old}");
    }
    let both = around("usage \"x\"\nset $aa=cvar(type=cvar-gamma)", load);
    assert!(refused(&both).contains("say which with --dialect 1.4.9"));
    let old = Options { dialect: Some(Dialect::V1_4_9), ..Options::default() };
    assert_eq!(checked(&both, &old).expect("is right").dialect, Dialect::V1_4_9);
}

#[test]
fn values_count_when_they_are_used_and_names_when_they_are_defined() {
    let text = "set $many=5\nset $who=first\nset $slot=3\n\
                define fileset name=set,path=/tmp,entries=$many,dirwidth=20\n\
                define process name=$who,instances=$many { thread name=t { flowop openfile name=o,filesetname=set,fd=$slot,iosize=$many } }\n\
                set $many=9\nset $who=second\nset $slot=7\nrun $many\n";
    let program = program(text);
    assert_eq!((program.filesets[0].entries, program.processes[0].instances), (9, 9));
    assert_eq!(program.processes[0].name, "first");
    let flowop = &program.processes[0].threads[0].flowops[0];
    assert_eq!((flowop.fd, &flowop.iosize), (3, &Number::Whole(9)));
    assert_eq!(program.seconds, Some(9));
    let created = text.replace("set $many=9", "create files\nset $many=9");
    assert_eq!(checked(&created, &Options::default()).expect("is right").filesets[0].entries, 5);
}

#[test]
fn what_the_user_sets_wins() {
    let text = around("set $dir=/elsewhere\nset $io=8k", "flowop read name=r,filesetname=set,iosize=$io")
        .replace("/tmp", "$dir");
    let options = Options {
        set: vec![("io".to_owned(), "16k".to_owned())],
        directory: Some("/mnt/x y".to_owned()),
        seconds: Some(2),
        ..Options::default()
    };
    let program = checked(&text, &options).expect("is right");
    assert_eq!(program.filesets[0].path, "/mnt/x y");
    assert_eq!(program.processes[0].threads[0].flowops[0].iosize, Number::Whole(16384));
    assert_eq!(program.seconds, Some(2));
    let wrong = Options { set: vec![("iio".to_owned(), "1".to_owned())], ..Options::default() };
    assert!(
        checked(&text, &wrong)
            .expect_err("refused")
            .contains("--set iio: the file sets no such variable; did you mean io?")
    );
    let old =
        around("define randvar name=$rv,type=uniform,min=1k,mean=2k", "flowop read name=r,filesetname=set,iosize=$rv");
    let fixed = Options { set: vec![("rv".to_owned(), "4k".to_owned())], ..Options::default() };
    let read = checked(&old, &fixed).expect("is right").processes[0].threads[0].flowops[0].iosize.clone();
    assert_eq!(read, Number::Whole(4096));
    let random = Options {
        set: vec![("io".to_owned(), "randvar(type=uniform,min=1k,mean=2k)".to_owned())],
        ..Options::default()
    };
    let drawn = checked(&text, &random).expect("is right").processes[0].threads[0].flowops[0].iosize.clone();
    assert!(matches!(drawn, Number::Random(of) if of.shape == Shape::Even { min: 1024.0, mean: 2048.0 }));
}

#[test]
fn what_the_file_leaves_open_can_be_given() {
    let text = around("", "flowop read name=r,filesetname=set,iosize=$io").replace("/tmp", "$dir");
    let said = refused(&text);
    assert!(said.contains("$dir is not set") && said.contains("--set io=VALUE"), "{said}");
    let options = Options {
        set: vec![("io".to_owned(), "16k".to_owned())],
        directory: Some("/mnt/x".to_owned()),
        ..Options::default()
    };
    let program = checked(&text, &options).expect("is right");
    assert_eq!(program.filesets[0].path, "/mnt/x");
    assert_eq!(program.processes[0].threads[0].flowops[0].iosize, Number::Whole(16384));
}

#[test]
fn composite_flowops_have_local_variables_that_work() {
    let text = around(
        "define flowop name=twice,iters=2,$size=4k,$slot {\n flowop openfile name=open,filesetname=set,fd=1\n\
         flowop read name=get,iosize=$size,fd=1\n flowop closefile name=close,fd=1 }",
        "flowop twice name=one\nflowop twice name=two,$size=8k,iters=3",
    );
    let flowops = program(&text).processes[0].threads[0].flowops.clone();
    assert_eq!(flowops[0].of, Type::Composite);
    assert_eq!(flowops[0].inner[1].name, "one.get");
    let size = |at: usize| flowops[at].inner[1].iosize.clone();
    assert_eq!((size(0), size(1)), (Number::Whole(4096), Number::Whole(8192)));
    assert_eq!((&flowops[0].iters, &flowops[1].iters), (&Number::Whole(2), &Number::Whole(3)));
    let itself = around("define flowop name=again { flowop again name=x }", "flowop again name=a");
    assert!(refused(&itself).contains("too deep"));
    let many = "flowop again name=x\n".repeat(30);
    let tree = around(&format!("define flowop name=again {{\n{many}}}"), "flowop again name=a");
    assert!(refused(&tree).contains("use fewer of them"));
}

#[test]
fn a_target_that_is_missing_in_many_steps_of_a_composite_is_told_of_once() {
    let steps = "flowop finishoncount name=end,value=5,target=gone\n".repeat(20);
    let inner = format!("define flowop name=inner {{\n{steps}}}\n");
    let outer = format!("define flowop name=outer {{\n{}}}", "flowop inner name=in\n".repeat(20));
    let said = refused(&around(&format!("{inner}{outer}"), "flowop outer name=one"));
    assert_eq!(said.matches("There is no flowop gone in this thread").count(), 1, "{said}");
    assert!(said.len() < 2000, "{said}");
}

#[test]
fn a_target_is_looked_for_inside_its_composite_flowop_first() {
    let text = around(
        "define flowop name=two { flowop hog name=work,value=1\nflowop finishoncount name=end,value=5,target=work }",
        "flowop hog name=work,value=1\nflowop two name=one\nflowop two name=other",
    );
    let flowops = program(&text).processes[0].threads[0].flowops.clone();
    let targets: Vec<_> = flowops[1..].iter().map(|of| of.inner[1].target.as_deref()).collect();
    assert_eq!(targets, [Some("one.work"), Some("other.work")]);
}

#[test]
fn the_old_dialect_takes_variables_from_the_environment() {
    let text = around("usage \"x\"\nset $io=$(PIECE)", "flowop read name=r,filesetname=set,iosize=$io");
    let environment = vec![("PIECE".to_owned(), "16k".to_owned()), ("OTHER".to_owned(), "x".to_owned())];
    let options = Options { environment, ..Options::default() };
    let (script, findings) = parse(&text);
    let resolved = resolve(&script, findings, &options);
    assert!(resolved.findings.iter().any(|finding| finding.message.starts_with("$(PIECE) is 16384 here")));
    let read = resolved.program.expect("is right").processes[0].threads[0].flowops[0].iosize.clone();
    assert_eq!(read, Number::Whole(16384));
    let set = Options { set: vec![("(PIECE)".to_owned(), "4k".to_owned())], ..options.clone() };
    let read = checked(&text, &set).expect("is right").processes[0].threads[0].flowops[0].iosize.clone();
    assert_eq!(read, Number::Whole(4096));
    assert!(refused(&text).contains("give it with --set '(PIECE)=VALUE'"));
    let new = Options { dialect: Some(Dialect::V1_5), ..options };
    let new = checked(&text, &new).expect_err("refused");
    assert!(new.contains("$(PIECE) is not set"), "{new}");
}

#[test]
fn a_local_variable_can_say_which_slot() {
    let text = around(
        "define flowop name=two,$slot=3 { flowop openfile name=open,filesetname=set,fd=$slot\n         flowop writewholefile name=put,fd=$slot,srcfd=$slot\nflowop closefile name=close,fd=$slot }",
        "flowop two name=one\nflowop two name=other,$slot=5",
    );
    let flowops = program(&text).processes[0].threads[0].flowops.clone();
    let slots = |at: usize| flowops[at].inner.iter().map(|step| step.fd).collect::<Vec<_>>();
    assert_eq!((slots(0), slots(1)), (vec![3, 3, 3], vec![5, 5, 5]));
    assert_eq!(flowops[1].inner[1].srcfd, Some(5));
    assert!(refused(&text.replace("$slot=5", "$slot=500")).contains("slots 0 to 127"));
    assert!(refused(&text.replace("two,$slot=3", "two")).contains("$slot is not set"));
}

#[test]
fn random_variables_of_the_old_dialect_have_fields_and_take_part_in_arithmetic() {
    let text = around(
        "define randvar name=$rv,type=uniform,min=1k,mean=2k\nset $rv.mean=3k\nset $aa=$rv.mean\nset $bb=$rv * 2\nset $cc=$aa-1\nset $dd=$aa /2",
        "flowop read name=r,filesetname=set,iosize=$bb,iters=$cc\nflowop delay name=d,value=$dd",
    );
    let flowops = program(&text).processes[0].threads[0].flowops.clone();
    assert!((flowops[0].iosize.mean() - 6144.0).abs() < 1e-9);
    assert_eq!((&flowops[0].iters, &flowops[1].value), (&Number::Whole(3071), &Number::Whole(1536)));
}

#[test]
fn a_run_has_an_end() {
    let load = "flowop hog name=h";
    for (before, run, mode, seconds) in [
        ("", "run 5", EndMode::Timeout, Some(5)),
        ("", "run", EndMode::Timeout, Some(60)),
        ("set mode quit firstdone", "run", EndMode::FirstDone, None),
        ("set mode quit alldone", "run 0", EndMode::AllDone, None),
        ("", "psrun -10 30", EndMode::Timeout, Some(30)),
        ("", "create processes\nstats clear\nsleep 7\nstats snap\nshutdown processes", EndMode::Timeout, Some(7)),
    ] {
        let program = program(&around(before, load).replace("run 5", run));
        assert_eq!((program.mode, program.seconds), (mode, seconds), "{run}");
    }
}

#[test]
fn a_file_without_a_run_command_runs_for_60_s_and_says_so() {
    for (mode, seconds, said) in [
        ("", Some(60), "no run command, so it runs for 60 s; add one, or use --seconds"),
        ("set mode quit alldone", None, "no run command, so it runs until its threads are done"),
    ] {
        let text = around(mode, "flowop finishoncount name=h,value=1").replace("run 5", "");
        let (script, findings) = parse(&text);
        let resolved = resolve(&script, findings, &Options::default());
        assert_eq!(resolved.program.map(|program| program.seconds), Some(seconds), "{mode}");
        assert!(resolved.findings.iter().any(|finding| finding.message.contains(said)), "{:?}", resolved.findings);
        let given = Options { seconds: Some(2), ..Options::default() };
        let (script, findings) = parse(&text);
        let resolved = resolve(&script, findings, &given);
        assert_eq!(resolved.program.map(|program| program.seconds), Some(Some(2)));
        assert!(resolved.findings.iter().all(|finding| !finding.message.contains("no run command")));
    }
}

#[test]
fn echo_puts_variables_in() {
    let text = around(
        "set $dir=/x\necho \"in $dir, $dir.\\n \\$dir $nothing 100%\"\nsystem \"sync\"\nsleep 2",
        "flowop hog name=h",
    );
    let program = program(&text);
    let said = Action::Echo("in /x, /x.\n $dir $nothing 100%".to_owned());
    assert_eq!(program.before, [said, Action::System("sync".to_owned()), Action::Sleep(2)]);
}

#[test]
fn nothing_after_the_run_counts() {
    let (script, findings) = parse(&around("", "flowop hog name=h").replace("run 5", "run 5\nset $xx=1"));
    let resolved = resolve(&script, findings, &Options::default());
    assert!(resolved.findings.iter().any(|finding| finding.message.starts_with("Nothing after the run")));
    assert!(resolved.program.is_some());
}

// Trees of any form.

fn at<T>(value: T) -> At<T> {
    At { value, span: strata_wml::Span::default() }
}

fn a_name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9]{1,6}"
}

fn a_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..=i64::MAX as u64).prop_map(Value::Integer),
        any::<bool>().prop_map(Value::Boolean),
        "[^\"]{0,12}".prop_map(Value::Text),
        a_name().prop_map(Value::Text),
        a_name().prop_map(Value::Variable),
    ]
}

fn an_attribute() -> impl Strategy<Value = Attribute> {
    let row = (a_value(), a_value(), a_value()).prop_map(|(one, two, three)| [at(one), at(two), at(three)]);
    let value = prop_oneof![
        4 => a_value().prop_map(AttributeValue::One),
        1 => prop::collection::vec(row, 1..4).prop_map(AttributeValue::Table),
    ];
    let name = prop_oneof![a_name(), a_name().prop_map(|name| format!("${name}"))];
    (name, prop::option::of(value)).prop_map(|(name, value)| Attribute { name: at(name), value: value.map(at) })
}

fn attributes() -> impl Strategy<Value = Vec<Attribute>> {
    prop::collection::vec(an_attribute(), 1..5)
}

fn flowops() -> impl Strategy<Value = Vec<At<FlowopNode>>> {
    let flowop = (a_name(), attributes()).prop_map(|(kind, attributes)| at(FlowopNode { kind: at(kind), attributes }));
    prop::collection::vec(flowop, 0..4)
}

fn a_command() -> impl Strategy<Value = Command> {
    let text = "[^\"]{0,20}".prop_map(at);
    let operator =
        prop_oneof![Just(Operator::Plus), Just(Operator::Minus), Just(Operator::Times), Just(Operator::Over)];
    let operand = || prop_oneof![(0..1u64 << 40).prop_map(Value::Integer), a_name().prop_map(Value::Variable)];
    let assigned = prop_oneof![
        a_value().prop_map(Assigned::Value),
        attributes().prop_map(Assigned::Randvar),
        attributes().prop_map(Assigned::Cvar),
        (operand(), operator, operand()).prop_map(|(one, operator, other)| Assigned::Arithmetic(
            at(one),
            operator,
            at(other)
        )),
    ];
    let mode =
        prop_oneof![Just(Mode::Timeout), Just(Mode::FirstDone), Just(Mode::AllDone), Just(Mode::NoUsageStatistics)];
    let number = || prop::option::of(operand().prop_map(at));
    let thread = (attributes(), flowops()).prop_map(|(attributes, flowops)| at(ThreadNode { attributes, flowops }));
    let plain = prop_oneof![
        (a_name(), assigned).prop_map(|(name, to)| Command::Set { variable: at(name), to: at(to) }),
        mode.prop_map(Command::SetMode),
        (any::<bool>(), attributes()).prop_map(|(single, attributes)| Command::DefineFileset { single, attributes }),
        attributes().prop_map(Command::DefineRandvar),
        attributes().prop_map(Command::DefinePosset),
        (attributes(), prop::collection::vec(thread, 0..3))
            .prop_map(|(attributes, threads)| Command::DefineProcess { attributes, threads }),
        (attributes(), flowops()).prop_map(|(attributes, flowops)| Command::DefineFlowop { attributes, flowops }),
        prop_oneof![Just("files"), Just("filesets"), Just("processes")]
            .prop_map(|what| Command::Create(at(what.to_owned()))),
        number().prop_map(Command::Run),
        (any::<bool>(), operand(), number()).prop_map(|(reset, period, seconds)| Command::Psrun {
            reset,
            period: Some(at(period)),
            seconds
        }),
        attributes().prop_map(Command::Eventgen),
        text.clone().prop_map(Command::Echo),
        text.clone().prop_map(Command::System),
        text.clone().prop_map(Command::Usage),
        text.prop_map(Command::Load),
        operand().prop_map(|seconds| Command::Sleep(at(seconds))),
        Just(Command::Quit),
        Just(Command::Version),
        Just(Command::EnableHistogram),
        attributes().prop_map(Command::EnableMulti),
        attributes().prop_map(Command::MultiSync),
        (
            prop_oneof![Just("stats"), Just("vars"), Just("shutdown")],
            prop::collection::vec(a_value().prop_map(at), 0..3)
        )
            .prop_map(|(word, arguments)| Command::Old { word: word.to_owned(), arguments }),
    ];
    plain.prop_recursive(2, 8, 3, |inner| {
        (a_name(), prop::collection::vec(a_value().prop_map(at), 1..3), prop::collection::vec(inner.prop_map(at), 0..3))
            .prop_map(|(name, values, commands)| Command::Foreach { variable: at(name), values, commands })
    })
}

proptest! {
    #[test]
    fn printing_and_reading_is_the_identity(commands in prop::collection::vec(a_command().prop_map(at), 0..6)) {
        let script = Script { commands };
        let printed = print(&script);
        let (again, findings) = parse(&printed);
        prop_assert_eq!(&script, &again, "{}\n{}", printed, render("printed", &printed, &findings));
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in "\\PC{0,200}") {
        let (script, findings) = parse(&text);
        prop_assert!(render("any", &text, &findings).is_empty() == findings.is_empty());
        let _ = resolve(&script, findings, &Options::default());
    }
}
