//! Names as people type them: of C++ and Rust without parameters, return types and hashes.

use cpp_demangle::{DemangleOptions, Symbol};

/// A mangled symbol's name without parameters: `nsJAR::GetEntry`, `core::fmt::write`; `None`: it is not mangled, as in
/// C, or not as C++ or Rust do it.
pub fn plain_name(symbol: &str) -> Option<String> {
    if let Ok(name) = rustc_demangle::try_demangle(symbol) {
        return Some(format!("{name:#}"));
    }
    if !symbol.starts_with("_Z") {
        return None;
    }
    // What the compiler split off (`.cold`, `.part.0`) is said as `[clone ...]`, which nobody types.
    let options = DemangleOptions::new().no_params().no_return_type().hide_expression_literal_types();
    let name = Symbol::new(symbol.split('.').next()?).ok()?.demangle_with_options(&options).ok()?;
    Some(match symbol.split_once('.') {
        Some((_, rest)) => format!("{name}.{rest}"),
        None => name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_neither_parameters_nor_hashes() {
        for (symbol, name) in [
            ("_ZN5nsJAR8GetEntryERK12nsTSubstringIcEPP10nsIZipEntry", "nsJAR::GetEntry"),
            ("_ZNKSt6vectorIiSaIiEE4sizeEv", "std::vector<int, std::allocator<int> >::size"),
            ("_Z3maxIiET_S0_S0_", "max<int>"),
            ("_ZN12_GLOBAL__N_14workEPFviE.part.0", "(anonymous namespace)::work.part.0"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function"),
            ("_ZlsRSoRK1X", "operator<<"),
        ] {
            assert_eq!(plain_name(symbol).as_deref(), Some(name), "{symbol}");
        }
        for symbol in ["malloc", "_Z", "_ZN", "", "_start", "_Z\u{e9}"] {
            assert_eq!(plain_name(symbol), None, "{symbol}");
        }
    }
}
