//! Tables of functions of libraries that are loaded at run time.

/// Defines a struct `Api` with a library's functions, by name, symbol and types, and their lookup. The default return
/// type is `Status`. Types are those of the library's header; the library is never closed.
macro_rules! functions {
    (@gives) => { Status };
    (@gives $gives:ty) => { $gives };
    ($($name:ident: $symbol:literal ($($type:ty),*) $(-> $gives:ty)?;)*) => {
        /// Addresses of the library's functions.
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($type),*) -> functions!(@gives $($gives)?),)*
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

            /// Returns the library's functions; opens the library at the first call, with a CUDA major version of at
            /// most `at_most`. The error says what to install.
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
