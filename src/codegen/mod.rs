//! From a plan to C, through the templates in `templates/` and the fixed runtime in `bpf-runtime/`.
