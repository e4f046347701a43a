fn main() -> std::process::ExitCode {
    citius_cli::run()
}
