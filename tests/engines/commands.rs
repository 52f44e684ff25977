//! Commands that the documents show are run as they stand there (see [`crate::pages`]): here those that record an engine.

use crate::pages::{Needs, Place, root, run_all};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Pages that are about another engine than `app.py` uses, and what prints a Python that has it.
const OTHER_ENGINES: [(&str, &str); 1] = [("docs/porting.md", "tests/engines/install_litert.sh")];

#[test]
#[ignore = "needs root"]
fn what_the_pages_show_of_recording_works() {
    let output = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(root()).output().expect(program);
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let python = PathBuf::from(output("tests/engines/install_wheel.sh", &[]));
    // The cache is where the environment is: CACHE/engines/ENVIRONMENT/bin/python.
    let cache = python.ancestors().nth(4).unwrap();
    let models = cache.join("models");
    output(python.to_str().unwrap(), &["tests/engines/make_models.py", models.to_str().unwrap(), "tiny-dense"]);
    run_all(Needs::Root, |page| match OTHER_ENGINES.iter().find(|(of, _)| *of == page) {
        Some((_, script)) => Place::new(Some(Path::new(&output(script, &[])))),
        None if page == "docs/gpu.md" => {
            let python = output("tests/engines/install_cyllama_vulkan.sh", &[]);
            Place::new(Some(Path::new(&python))).with_gpu_app(cache)
        }
        None => Place::new(Some(&python)).with_app(cache),
    });
}
