//! Exports functions to SQL without pgrx's code generator.

/// Exports `fn(FunctionCallInfo) -> Datum` under the name that the extension's script uses: the
/// function, and the record of its calling convention that PostgreSQL looks up beside it.
macro_rules! sql_function {
    ($name:ident, $record:ident, $function:expr) => {
        #[doc(hidden)]
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $record() -> *const pgrx::pg_sys::Pg_finfo_record {
            static RECORD: pgrx::pg_sys::Pg_finfo_record = pgrx::pg_sys::Pg_finfo_record { api_version: 1 };
            &raw const RECORD
        }

        #[doc(hidden)]
        #[pgrx::pg_guard]
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $name(call: pgrx::pg_sys::FunctionCallInfo) -> pgrx::pg_sys::Datum {
            let function: fn(pgrx::pg_sys::FunctionCallInfo) -> pgrx::pg_sys::Datum = $function;
            function(call)
        }
    };
}
pub(crate) use sql_function;
