mod graphs;
mod optimum;
