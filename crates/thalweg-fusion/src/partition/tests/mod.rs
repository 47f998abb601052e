mod graphs;
mod optimum;
mod stored;
