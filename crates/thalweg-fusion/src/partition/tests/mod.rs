mod changes;
mod factors;
pub(crate) mod graphs;
mod invariance;
mod legality;
mod limits;
mod optimum;
mod parts;
mod periodic;
