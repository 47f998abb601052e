//! The functions of a library that is found at run time, as a table.

/// Makes a struct `Api` of the functions of a library, by name, symbol and types, and what looks them up. Where nothing is
/// said they give a `Status`. Types are those of the library's header; the library is never closed.
macro_rules! functions {
    (@gives) => { Status };
    (@gives $gives:ty) => { $gives };
    ($($name:ident: $symbol:literal ($($type:ty),*) $(-> $gives:ty)?;)*) => {
        /// The library's functions.
        struct Api {
            $($name: unsafe extern "C" fn($($type),*) -> functions!(@gives $($gives)?),)*
        }

        impl Api {
            fn new(library: &libloading::Library) -> Result<Api, String> {
                $(
                    // SAFETY: the types are those of the header, and the library is never closed.
                    let $name = unsafe { library.get($symbol.as_bytes()) };
                    let $name = *$name.map_err(|_| format!("it has no {}", $symbol))?;
                )*
                Ok(Api { $($name,)* })
            }

            /// The library's functions; opened at the first call, of a major of CUDA up to that. What to install when there
            /// is none.
            fn get(sought: $crate::find::Sought, at_most: u32) -> Result<&'static Api, &'static str> {
                static API: std::sync::OnceLock<Result<Api, String>> = std::sync::OnceLock::new();
                let open = || {
                    let opened = $crate::find::open(sought, Some(at_most))?;
                    Api::new(&opened.library).map_err(|why| format!("{}: {why}", opened.path.display()))
                };
                API.get_or_init(open).as_ref().map_err(|why| why.as_str())
            }
        }
    };
}

pub(super) use functions;
