//! Who is there, as far as anybody heard: a hint, never an authority.
