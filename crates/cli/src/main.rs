#[global_allocator]
static ALLOCATOR: citius_cpu::out_of_memory::ReportingAllocator = citius_cpu::out_of_memory::ReportingAllocator;

fn main() -> std::process::ExitCode {
    citius_cli::run()
}
