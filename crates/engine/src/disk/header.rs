//! Reads constants and layouts out of a C header, so that tests compare this program with what the kernel's headers say.
//!
//! It knows only as much of C as those headers need: `#define NAME EXPRESSION` of numbers, shifts and `|`, and structures
//! of integers, arrays of them, and other structures.

use std::collections::BTreeMap;

/// What a header says.
pub struct Header {
    text: String,
}

/// Where the members of a structure are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Offset and size of each member, by name, in order of offset.
    pub members: BTreeMap<String, (usize, usize)>,
    /// Bytes of the whole.
    pub size: usize,
    align: usize,
}

/// The header of this machine's kernel interface.
pub fn machine(name: &str) -> Header {
    let path = format!("/usr/include/{name}");
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{path} cannot be read ({error}); install linux-libc-dev or kernel-headers"));
    Header::new(&text)
}

impl Header {
    /// A header from its text.
    pub fn new(text: &str) -> Self {
        let mut without_comments = String::new();
        let mut rest = text;
        while let Some((code, comment)) = rest.split_once("/*") {
            without_comments.push_str(code);
            rest = comment.split_once("*/").map_or("", |(_, after)| after);
        }
        without_comments.push_str(rest);
        Self { text: without_comments.replace("\\\n", " ") }
    }

    /// The value of a constant.
    pub fn constant(&self, name: &str) -> i64 {
        self.definition(name).and_then(value_of).unwrap_or_else(|| panic!("the header has no number called {name}"))
    }

    /// What a name is defined as.
    pub fn definition(&self, name: &str) -> Option<&str> {
        self.text.lines().find_map(|line| {
            let line = line.trim().strip_prefix('#')?.trim().strip_prefix("define")?.trim();
            let (word, value) = line.split_once(char::is_whitespace)?;
            if word == name { Some(value.trim()) } else { None }
        })
    }

    /// The layout of a structure.
    pub fn layout(&self, name: &str) -> Layout {
        let start = format!("struct {name} {{");
        let body = self.text.split_once(&start).unwrap_or_else(|| panic!("the header has no struct {name}")).1;
        let body: Vec<&str> =
            body.lines().take_while(|line| !line.starts_with("};")).filter(|line| !line.starts_with('#')).collect();
        let mut layout = Layout { members: BTreeMap::new(), size: 0, align: 1 };
        // Where the members of the union begin that is being read.
        let mut union_at = None;
        for mut member in body.join(" ").split(';').map(str::trim).filter(|member| !member.is_empty()) {
            if let Some(first) = member.strip_prefix("union {") {
                (union_at, member) = (Some(layout.size), first.trim());
            } else if member == "}" {
                union_at = None;
                continue;
            }
            let (kind, name) = member.rsplit_once(char::is_whitespace).unwrap_or_else(|| panic!("{member}"));
            let (name, count) = match name.split_once('[') {
                Some((name, count)) => {
                    (name, count.trim_end_matches(']').parse().unwrap_or_else(|_| panic!("{member}")))
                }
                None => (name, 1),
            };
            let (size, align) = self.kind(kind.trim());
            let offset = union_at.unwrap_or(layout.size).next_multiple_of(align);
            layout.members.insert(name.to_owned(), (offset, size * count));
            (layout.size, layout.align) = (layout.size.max(offset + size * count), layout.align.max(align));
        }
        layout.size = layout.size.next_multiple_of(layout.align);
        layout
    }

    /// Size and alignment of a type.
    fn kind(&self, kind: &str) -> (usize, usize) {
        let bytes = match kind {
            "__u8" | "__s8" => 1,
            "__u16" | "__s16" => 2,
            "__u32" | "__s32" => 4,
            "__u64" | "__s64" => 8,
            other => {
                let name = other.strip_prefix("struct ").unwrap_or_else(|| panic!("an unknown type: {other}"));
                let layout = self.layout(name.trim());
                return (layout.size, layout.align);
            }
        };
        (bytes, bytes)
    }
}

/// Numbers, shifts to the left, `|`, a minus sign and brackets around the whole.
fn value_of(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Some(inner) = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
        return value_of(inner);
    }
    if let Some((left, right)) = text.split_once('|') {
        return Some(value_of(left)? | value_of(right)?);
    }
    if let Some((left, right)) = text.split_once("<<") {
        return value_of(left)?.checked_shl(u32::try_from(value_of(right)?).ok()?);
    }
    let digits = text.trim_end_matches(['U', 'L', 'u', 'l']);
    match digits.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => digits.parse().ok(),
    }
}

#[test]
fn numbers_and_layouts_are_read_as_a_compiler_reads_them() {
    let text = "#define\tA\t\t0x20\n#define B (1ULL << 3) /* three */\n#define C (-5)\n#define D (1 << 0 | 1 << 4)\n#define AB 7\n\
                struct one {\n\t/* a */\n#define E (1 << 1)\n\t__u8 a;\n\t__u16 b;\n\t__u64 c[2];\n\t__u8\td;\n};\n\
                struct two {\n\t__u32 a;\n\tstruct one\t\tb;\n};\n# define F\t1U\n#define G _X('u', \\\n\tA)\n\
                struct three {\n\t__u32 a;\n\tunion {\n\t\t__u32 b;\n\t\t__u8 c; /* c */\n\t};\n\t__u64 d;\n};\n";
    let header = Header::new(text);
    let values = ["A", "B", "C", "D", "AB", "E"].map(|name| header.constant(name));
    assert_eq!(values, [0x20, 8, -5, 17, 7, 2]);
    assert_eq!((header.constant("F"), header.definition("H")), (1, None));
    assert_eq!(header.definition("G"), Some("_X('u',  \tA)"));
    let three = header.layout("three");
    assert_eq!([three.members["b"], three.members["c"], three.members["d"]], [(4, 4), (4, 1), (8, 8)]);
    let one = header.layout("one");
    assert_eq!(one.members["b"], (2, 2));
    assert_eq!(one.members["c"], (8, 16));
    assert_eq!((one.members["d"], one.size), ((24, 1), 32));
    assert_eq!(header.layout("two").members["b"], (8, 32));
}
