//! Measures a disk and shows how far its model is from it: `cargo run --release -p disk --example this_disk --
//! /dev/sda`.

fn main() -> Result<(), model::Error> {
    let device = std::env::args_os().nth(1).unwrap_or_else(|| "/dev/sda".into());
    let fitted = disk::fit::fit(&disk::fit::measure(device.as_ref(), 1)?)?;
    println!("{:#?}", fitted.model.kind);
    for cell in &fitted.cells {
        println!("{:<28} measured {:>9.3} ms   model {:>9.3} ms", cell.what, cell.measured_s * 1e3, cell.model_s * 1e3);
    }
    println!("error {:.1} % (root mean square), {:.1} % at worst", fitted.error * 100.0, fitted.worst * 100.0);
    Ok(())
}
