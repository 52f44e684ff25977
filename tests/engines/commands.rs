//! Commands that the documents show are run as they stand there (see [`crate::pages`]): here those that record an engine.

use crate::pages::{Needs, Place, root, run_all};
use std::path::PathBuf;
use std::process::Command;

/// Environments that a page has its reader make, by the folder, and what prints the Python of such a one.
const PORTING: [(&str, &str); 2] =
    [("ct2", "tests/engines/install_ctranslate2.sh"), ("openvino", "tests/engines/install_openvino.sh")];

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
    run_all(Needs::Root, |page| match page {
        "docs/porting.md" => PORTING.iter().fold(Place::new(None), |place, (folder, script)| {
            place.with_environment(folder, &PathBuf::from(output(script, &[])))
        }),
        "docs/gpu.md" => {
            let python = PathBuf::from(output("tests/engines/install_cyllama_vulkan.sh", &[]));
            Place::new(Some(&python)).with_gpu_app(cache)
        }
        _ => Place::new(Some(&python)).with_app(cache),
    });
}
