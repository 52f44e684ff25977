//! The `profinfer` program: parse the arguments, run the command, exit with its code.

fn main() -> std::process::ExitCode {
    profinfer::cli::main()
}
