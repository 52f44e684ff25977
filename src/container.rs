//! The container that a process is in: its number by the control group, and the names that its runtime has for it on this
//! machine. Nothing is asked of the runtime or of the container: files are read, and what is not found is absent.

use super::bounded;
use nix::unistd::{Uid, User};
use profinfer_live::Container;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Bytes of a file that are read.
const MAX_FILE: u64 = 16 << 20;
/// Characters of a name.
pub(crate) const MAX_NAME: usize = 256;
/// Characters of a container's number.
pub(crate) const NUMBER: usize = 64;

/// The numbers of the containers in the path of a control group, from the outermost to the innermost.
pub(crate) fn numbers(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split(|c: char| !c.is_ascii_hexdigit()).filter(|part| part.len() == NUMBER)
}

/// The paths in a process's `/proc/PID/cgroup`.
pub(crate) fn paths(groups: &str) -> impl Iterator<Item = &str> {
    groups.lines().filter_map(|line| line.splitn(3, ':').nth(2))
}

/// The innermost container of a process, by its `/proc/PID/cgroup`.
pub(crate) fn container(groups: &str) -> Option<Container> {
    let (path, number) = paths(groups).find_map(|path| Some((path, numbers(path).next_back()?)))?;
    Some(read(number, path, Path::new("/")))
}

/// A container with this number, of a control group with this path, by the files below `root`.
fn read(number: &str, path: &str, root: &Path) -> Container {
    let user = owner(path).and_then(|uid| User::from_uid(uid).ok().flatten());
    let of_user = user.map(|user| user.dir.join(".local/share/containers/storage"));
    let storages = std::iter::once(PathBuf::from("/var/lib/containers/storage")).chain(of_user);
    let mut found = Container { id: number.to_owned(), ..Container::default() };
    let described = of_docker(number, root)
        .or_else(|| of_kubernetes(number, root))
        .or_else(|| storages.into_iter().find_map(|storage| of_storage(number, &below(root, &storage))));
    if let Some(described) = described {
        let Described { name, image, pod, namespace } = described;
        let shown = |text: Option<String>| text.filter(|text| !text.is_empty()).map(shortened);
        (found.name, found.image) = (shown(name), shown(image));
        (found.pod, found.namespace) = (shown(pod), shown(namespace));
    }
    found
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn shortened(text: String) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect()
}

/// The user whose service manager has made a control group: `/user.slice/user-1000.slice/…`.
fn owner(path: &str) -> Option<Uid> {
    let part = path.split('/').find_map(|part| part.strip_prefix("user-")?.strip_suffix(".slice"))?;
    part.parse().ok().map(Uid::from_raw)
}

/// What is in a runtime's files.
#[derive(Debug, Default)]
struct Described {
    name: Option<String>,
    image: Option<String>,
    pod: Option<String>,
    namespace: Option<String>,
}

impl Described {
    /// By the annotations or labels of Kubernetes' runtimes: containerd's, CRI-O's, cri-dockerd's.
    fn annotated(of: &HashMap<String, String>) -> Self {
        let first = |keys: &[&str]| keys.iter().find_map(|key| of.get(*key)).cloned();
        Self {
            name: first(&["io.kubernetes.cri.container-name", "io.kubernetes.container.name"]),
            image: first(&["io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName"]),
            pod: first(&["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]),
            namespace: first(&["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"]),
        }
    }
}

fn json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&bounded::read(path, MAX_FILE).ok()?).ok()
}

/// Docker's own file of a container.
fn of_docker(number: &str, root: &Path) -> Option<Described> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "PascalCase", default)]
    struct Config {
        image: Option<String>,
        labels: Option<HashMap<String, String>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct File {
        name: Option<String>,
        #[serde(default)]
        config: Config,
    }
    let file: File = json(&root.join("var/lib/docker/containers").join(number).join("config.v2.json"))?;
    let labelled = Described::annotated(&file.config.labels.unwrap_or_default());
    let name = file.name.map(|name| name.trim_start_matches('/').to_owned());
    Some(Described { name: labelled.name.or(name), image: labelled.image.or(file.config.image), ..labelled })
}

/// The bundle from which containerd or CRI-O started a container of a pod.
fn of_kubernetes(number: &str, root: &Path) -> Option<Described> {
    #[derive(Deserialize)]
    struct Bundle {
        #[serde(default)]
        annotations: HashMap<String, String>,
    }
    let of_containerd = std::fs::read_dir(root.join("run/containerd/io.containerd.runtime.v2.task"));
    let of_containerd = of_containerd.into_iter().flatten().flatten().map(|namespace| namespace.path().join(number));
    let of_crio = root.join("run/containers/storage/overlay-containers").join(number).join("userdata");
    let bundles: Vec<PathBuf> = of_containerd.chain([of_crio]).collect();
    let bundle: Bundle = bundles.iter().find_map(|bundle| json(&bundle.join("config.json")))?;
    let described = Described::annotated(&bundle.annotations);
    described.name.is_some().then_some(described)
}

/// The storage of podman, Buildah and CRI-O.
fn of_storage(number: &str, storage: &Path) -> Option<Described> {
    #[derive(Deserialize)]
    struct Entry {
        id: String,
        #[serde(default)]
        names: Vec<String>,
        #[serde(default)]
        metadata: String,
    }
    #[derive(Deserialize, Default)]
    struct Metadata {
        #[serde(rename = "image-name")]
        image: Option<String>,
    }
    let folder = storage.join("overlay-containers");
    let lists = ["containers.json", "volatile-containers.json"];
    let entries = lists.iter().filter_map(|list| json::<Vec<Entry>>(&folder.join(list))).flatten();
    let entry = entries.into_iter().find(|entry| entry.id == number)?;
    let metadata: Metadata = serde_json::from_str(&entry.metadata).unwrap_or_default();
    Some(Described { name: entry.names.into_iter().next(), image: metadata.image, ..Described::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: &str = "4d1b1e7c1f5e4d1b1e7c1f5e4d1b1e7c1f5e4d1b1e7c1f5e4d1b1e7c1f5eabcd";

    /// A container by the files that a runtime has; `path` is of its control group.
    fn by(files: &[(&str, &str)], path: &str) -> Container {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = root.path().join(name.replace("NUMBER", NUMBER));
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text.replace("NUMBER", NUMBER)).unwrap();
        }
        let found = read(NUMBER, path, root.path());
        assert_eq!(found.id, NUMBER);
        found
    }

    fn names(of: &Container) -> [Option<&str>; 4] {
        [&of.name, &of.image, &of.pod, &of.namespace].map(|name| name.as_deref())
    }

    #[test]
    fn each_runtime_has_its_names_elsewhere() {
        let podman = r#"[{"id":"other","names":["no"]},{"id":"NUMBER","names":["web"],"metadata":"{\"image-name\":\"localhost/llm:1\"}"}]"#;
        let of_podman = [Some("web"), Some("localhost/llm:1"), None, None];
        let file = "var/lib/containers/storage/overlay-containers/containers.json";
        assert_eq!(names(&by(&[(file, podman)], "/machine.slice/libpod-NUMBER.scope")), of_podman);
        let volatile = "var/lib/containers/storage/overlay-containers/volatile-containers.json";
        assert_eq!(names(&by(&[(volatile, podman)], "")), of_podman);
        // The first user is root here.
        let home = User::from_uid(Uid::from_raw(0)).unwrap().unwrap().dir;
        let rootless = format!("{}/.local/share/containers/storage/overlay-containers/containers.json", home.display());
        let path = "/user.slice/user-0.slice/user@0.service/user.slice/libpod-NUMBER.scope";
        assert_eq!(names(&by(&[(&rootless[1..], podman)], path)), of_podman);

        let docker = r#"{"Name":"/chat","Config":{"Image":"ghcr.io/llm:2","Labels":null}}"#;
        let file = "var/lib/docker/containers/NUMBER/config.v2.json";
        assert_eq!(names(&by(&[(file, docker)], "")), [Some("chat"), Some("ghcr.io/llm:2"), None, None]);

        let containerd = r#"{"annotations":{"io.kubernetes.cri.container-name":"server",
            "io.kubernetes.cri.image-name":"llm:3","io.kubernetes.cri.sandbox-name":"llm-7d9f",
            "io.kubernetes.cri.sandbox-namespace":"prod"}}"#;
        let file = "run/containerd/io.containerd.runtime.v2.task/k8s.io/NUMBER/config.json";
        let expected = [Some("server"), Some("llm:3"), Some("llm-7d9f"), Some("prod")];
        assert_eq!(names(&by(&[(file, containerd)], "")), expected);

        let crio = r#"{"annotations":{"io.kubernetes.container.name":"server","io.kubernetes.cri-o.ImageName":"llm:3",
            "io.kubernetes.pod.name":"llm-7d9f","io.kubernetes.pod.namespace":"prod"}}"#;
        let file = "run/containers/storage/overlay-containers/NUMBER/userdata/config.json";
        assert_eq!(names(&by(&[(file, crio)], "")), expected);
    }

    #[test]
    fn broken_files_are_no_names() {
        for text in ["", "[", "{}", "[{\"id\":4}]", r#"{"Name":3}"#] {
            let files = [
                ("var/lib/containers/storage/overlay-containers/containers.json", text),
                ("var/lib/docker/containers/NUMBER/config.v2.json", text),
                ("run/containerd/io.containerd.runtime.v2.task/k8s.io/NUMBER/config.json", text),
            ];
            assert_eq!(names(&by(&files, "/user.slice/user-x.slice/")), [None; 4], "{text}");
        }
        let long = format!(r#"{{"Name":"/{}\u0007b"}}"#, "a".repeat(1000));
        let found = by(&[("var/lib/docker/containers/NUMBER/config.v2.json", &long)], "");
        assert_eq!(found.name.map(|name| name.len()), Some(MAX_NAME));
    }
}
