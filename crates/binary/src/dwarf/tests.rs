use crate::tests::{library, offset_of, type_of};
use crate::{Files, TargetSymbols, TargetTypes};

/// Forms of debug information that compilers write.
const FORMS: [(&str, &[&str]); 10] = [
    ("gcc", &["-gdwarf-5"]),
    ("gcc", &["-gdwarf-4", "-O2"]),
    ("gcc", &["-gdwarf-2", "-gstrict-dwarf"]),
    ("gcc", &["-g", "-gz=zlib"]),
    ("gcc", &["-gdwarf-4", "-fdebug-types-section"]),
    ("gcc", &["-gdwarf-5", "-fdebug-types-section"]),
    ("gcc", &["-gdwarf-5", "-gdwarf64"]),
    // Types are in a separate unit, referred to from another.
    ("gcc", &["-g", "-flto", "-O1"]),
    ("clang", &["-gdwarf-5"]),
    ("clang", &["-gdwarf-4", "-gz"]),
];

fn in_every_form(source: &str, cpp: bool, check: impl Fn(&Files)) {
    for (compiler, options) in FORMS {
        // DWARF 2 itself has no namespaces.
        let options: Vec<&str> = options.iter().copied().filter(|option| !cpp || *option != "-gstrict-dwarf").collect();
        let compiler = match (compiler, cpp) {
            ("gcc", true) => "g++",
            ("clang", true) => "clang++",
            (other, _) => other,
        };
        println!("{compiler} {options:?}");
        check(&library(compiler, source, &options).1);
    }
}

const C: &str = r"
    #include <stddef.h>
    #include <stdint.h>
    typedef enum { KIND_A, KIND_B = 200, KIND_C = 70000 } kind_t;
    enum op { OP_NEG = -5, OP_NONE = 0, OP_ADD, OP_SAME = 1, OP_BIG = 255 };
    struct opaque;
    typedef struct opaque opaque_t;
    typedef void (*callback)(int);
    typedef int64_t size4[4];
    struct tensor {
        enum op op;
        kind_t kind;
        size4 ne;
        struct tensor *src[10];
        void *data;
        const void *constant;
        const char *label;
        char name[64];
        struct opaque *hidden;
        opaque_t **hidden_typedef;
        callback on_done;
        union { float f; struct { uint16_t low, high; }; };
        struct { short x, y; } position;
        unsigned flag_a : 3;
        unsigned flag_b : 5;
        const volatile double weight;
        _Bool ready;
        int grid[2][3];
        long double wide;
        uint8_t tail[];
    };
    typedef struct { int n_tokens; float *embd; } batch;
    typedef batch batch_alias;
    union either { int i; double d; };
    struct tensor *t; batch b; batch_alias ba; union either e; enum op o; kind_t k;
    const unsigned long place[] = { offsetof(struct tensor, position), sizeof(struct tensor) };
";

#[test]
fn a_c_struct_is_read_member_by_member() {
    in_every_form(C, false, |files| {
        let tensor = files.layout(0, "tensor").unwrap();
        let expected = [
            ("op", 0, "enum op"),
            ("kind", 4, "enum kind_t"),
            ("ne", 8, "i64[4]"),
            ("src", 40, "tensor*[10]"),
            ("data", 120, "void*"),
            ("constant", 128, "void*"),
            ("label", 136, "i8*"),
            ("name", 144, "i8[64]"),
            ("hidden", 208, "opaque*"),
            ("hidden_typedef", 216, "opaque**"),
            ("on_done", 224, "void*"),
            ("f", 232, "f32"),
            ("low", 232, "u16"),
            ("high", 234, "u16"),
            ("position", 236, "(anonymous)"),
            ("weight", 248, "f64"),
            ("ready", 256, "bool"),
            ("grid", 260, "i32[3][2]"),
            ("wide", 288, "f128"),
            ("tail", 304, "u8[]"),
        ];
        assert_eq!(tensor.size, 304);
        for (member, offset, ty) in expected {
            assert_eq!((offset_of(&tensor, member), type_of(&tensor, member).as_str()), (offset, ty), "{member}");
        }
        assert_eq!(type_of(&tensor, "flag_a"), "u32:3", "a bit-field is no integer that can be read");
        assert_eq!(type_of(&tensor, "flag_b"), "u32:5");
        assert_eq!(tensor.members.len(), expected.len() + 2);
    });
}

#[test]
fn typedefs_lead_to_their_structs_and_enumerations() {
    in_every_form(C, false, |files| {
        for name in ["batch", "batch_alias"] {
            let batch = files.layout(0, name).unwrap();
            assert_eq!((batch.size, type_of(&batch, "embd").as_str()), (16, "f32*"));
        }
        let either = files.layout(0, "either").unwrap();
        assert_eq!((either.size, offset_of(&either, "i"), offset_of(&either, "d")), (8, 0, 0));
        for declared_only_or_no_struct in ["opaque", "opaque_t", "op", "callback", "absent", "", "int", "size4"] {
            assert_eq!(files.layout(0, declared_only_or_no_struct), None, "{declared_only_or_no_struct}");
        }
    });
}

#[test]
fn enumerations_are_read_with_their_signs() {
    in_every_form(C, false, |files| {
        let op = files.enumeration(0, "op").unwrap();
        let expected = [(-5, "OP_NEG"), (0, "OP_NONE"), (1, "OP_ADD"), (255, "OP_BIG")];
        assert_eq!(op.iter().map(|(n, name)| (*n, name.as_str())).collect::<Vec<_>>(), expected);
        let kind = files.enumeration(0, "kind_t").unwrap();
        let expected = [(0, "KIND_A"), (200, "KIND_B"), (70000, "KIND_C")];
        assert_eq!(kind.iter().map(|(n, name)| (*n, name.as_str())).collect::<Vec<_>>(), expected);
        assert_eq!(files.enumeration(0, "tensor"), None);
    });
}

const CPP: &str = r"
    namespace eng {
    enum class mode : unsigned char { slow = 1, fast = 255 };
    enum class wide : long long { low = -5000000000LL, high = 5000000000LL };
    struct base { virtual int run(int x) { return x; } int id; int shadowed; static int count; };
    struct second { long b2; };
    struct virt { int v; };
    class conv : public base, public second {
    public:
        struct inner;
        int shadowed;
        inner *in;
        inner &ref;
        inner &&rvalue;
        mode m;
        int conv::*member;
        base *up;
        enum { small, large } size;
        conv();
    };
    struct conv::inner { int a; conv *back; };
    struct diamond : virtual virt { int own; };
    template <class T> struct box { T value; box *next; };
    inline namespace v1 { struct versioned { short s; versioned *more; }; }
    namespace { struct hidden { char c; }; }
    struct uses { box<int> *b; box<mode> e; hidden *h; v1::versioned *v; decltype(nullptr) nothing; char16_t wide; };
    int base::count;
    // A compiler describes a class with virtual methods where its table is.
    conv::conv() : in(nullptr), ref(*in), rvalue(static_cast<inner &&>(*in)) {}
    }
    eng::conv *c; eng::conv::inner i; eng::diamond d; eng::uses u; eng::versioned v; eng::hidden h; eng::mode m; eng::wide w;
    long sizes = sizeof(eng::conv) + sizeof(eng::diamond);
";

#[test]
fn cpp_classes_have_the_members_of_their_bases() {
    in_every_form(CPP, true, |files| {
        let conv = files.layout(0, "eng::conv").unwrap();
        assert_eq!((offset_of(&conv, "id"), type_of(&conv, "id").as_str()), (8, "i32"));
        assert_eq!(offset_of(&conv, "b2"), 16, "second base");
        assert_eq!(offset_of(&conv, "shadowed"), 24, "the class's own");
        assert_eq!(type_of(&conv, "in"), "eng::conv::inner*");
        assert_eq!(type_of(&conv, "ref"), "eng::conv::inner*", "a reference is a pointer");
        assert_eq!(type_of(&conv, "rvalue"), "eng::conv::inner*");
        assert_eq!(type_of(&conv, "m"), "enum eng::mode");
        assert_eq!(type_of(&conv, "up"), "eng::base*");
        assert!(!conv.members.contains_key("count"), "a static member is not in the object");
        let diamond = files.layout(0, "eng::diamond").unwrap();
        assert_eq!(offset_of(&diamond, "own"), 8);
        assert!(!diamond.members.contains_key("v"), "the offset of a virtual base varies");
    });
}

#[test]
fn cpp_names_are_qualified() {
    in_every_form(CPP, true, |files| {
        let inner = files.layout(0, "eng::conv::inner").unwrap();
        assert_eq!((inner.size, type_of(&inner, "back").as_str()), (16, "eng::conv*"));
        let uses = files.layout(0, "eng::uses").unwrap();
        assert_eq!(type_of(&uses, "b"), "eng::box<int>*");
        assert_eq!(type_of(&uses, "e"), "eng::box<eng::mode>");
        assert_eq!(type_of(&uses, "wide"), "u16");
        assert_eq!(files.layout(0, "eng::box<eng::mode>").unwrap().size, 16);
        assert_eq!(files.layout(0, "eng::hidden").unwrap().size, 1, "in an unnamed namespace");
        assert_eq!(files.layout(0, "eng::v1::versioned").unwrap().size, 16);
        for absent in ["conv", "inner", "eng", "eng::inner", "conv::inner", "other::conv", "eng::conv::inner::more"] {
            assert_eq!(files.layout(0, absent), None, "{absent}");
        }
        let mode = files.enumeration(0, "eng::mode").unwrap();
        assert_eq!(mode.keys().copied().collect::<Vec<_>>(), [1, 255]);
        let wide = files.enumeration(0, "eng::wide").unwrap();
        assert_eq!(wide.keys().copied().collect::<Vec<_>>(), [-5_000_000_000, 5_000_000_000]);
    });
}

#[test]
fn names_in_an_inline_namespace_need_not_be_qualified_by_it() {
    for (compiler, form) in [("g++", "-gdwarf-5"), ("clang++", "-gdwarf-5")] {
        let (_folder, files) = library(compiler, CPP, &[form]);
        assert_eq!(files.layout(0, "eng::versioned").unwrap().size, 16);
    }
}

#[test]
fn a_declaration_elsewhere_does_not_hide_the_definition() {
    let folder = tempfile::tempdir().unwrap();
    let second = folder.path().join("second.c");
    std::fs::write(&second, "struct tensor { int a; long b; } defined;").unwrap();
    let first = "struct tensor; typedef struct tensor tensor_t; tensor_t *declared; struct tensor *again;";
    let (_folder, files) = library("gcc", first, &["-g", second.to_str().unwrap()]);
    assert_eq!(files.layout(0, "tensor").unwrap().size, 16);
}

/// Two units have different types of one name, and a function each, static ones of one name among them.
#[test]
fn a_type_is_that_of_the_unit_that_a_function_is_defined_in() {
    let folder = tempfile::tempdir().unwrap();
    let second = folder.path().join("second.c");
    let unit = |members: &str, name: &str| {
        format!(
            "struct context {{ {members} }};
            static __attribute__((noinline)) int same(struct context *of) {{ __asm__ volatile(\"\"); return of->tokens; }}
            __attribute__((noinline, used)) int {name}(struct context *of) {{ return same(of) + {}; }}",
            name.len()
        )
    };
    std::fs::write(&second, unit("long before; int tokens;", "second")).unwrap();
    for (compiler, options) in [
        ("gcc", &["-g"][..]),
        ("gcc", &["-g", "-fdebug-types-section"]),
        ("gcc", &["-g", "-flto", "-flto-partition=one"]),
        ("gcc", &["-gdwarf-4"]),
        ("clang", &["-g"]),
    ] {
        let options: Vec<&str> = options.iter().copied().chain(["-O1", second.to_str().unwrap()]).collect();
        let (_folder, files) = library(compiler, &unit("int tokens;", "first"), &options);
        let functions = |name: &str| files.functions(0, &profinfer_probeset::path::NamePattern(name.to_owned()));
        let offset = |symbol: &str, file_offset: u64| {
            let unit = files.units(0, &[(symbol, file_offset)])[0]?;
            Some(offset_of(&files.layout_in(0, unit, "context")?, "tokens"))
        };
        let of = |name: &str| functions(name).iter().map(|f| offset(&f.symbol, f.file_offset)).collect::<Vec<_>>();
        println!("{compiler} {options:?}");
        assert_eq!((of("first"), of("second")), (vec![Some(0)], vec![Some(8)]), "{compiler} {options:?}");
        if !options.contains(&"-flto") {
            let mut both = of("same");
            both.sort();
            assert_eq!(both, [Some(0), Some(8)], "{compiler} {options:?}");
        }
        assert_eq!(offset("absent", 0), None);
    }
}

#[test]
fn without_debug_information_nothing_is_known() {
    let (folder, files) = library("gcc", C, &["-g0"]);
    assert_eq!(files.layout(0, "tensor"), None);
    assert_eq!(files.enumeration(0, "op"), None);
    assert!(!folder.path().join("cache").exists(), "and nothing is cached");
}

#[test]
fn all_at_once_is_answered_as_one_by_one() {
    let (_folder, together) = library("gcc", C, &["-g"]);
    let (_folder, single) = library("gcc", C, &["-g"]);
    together.prepare(0, &["tensor", "batch", "absent", "opaque"], &["op", "kind_t", "absent"]);
    for name in ["tensor", "batch", "absent", "opaque"] {
        assert_eq!(together.layout(0, name), single.layout(0, name));
    }
    for name in ["op", "kind_t", "absent"] {
        assert_eq!(together.enumeration(0, name), single.enumeration(0, name));
    }
}
