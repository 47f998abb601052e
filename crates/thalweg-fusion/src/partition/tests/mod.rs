mod graphs;
mod invariance;
mod legality;
mod optimum;
