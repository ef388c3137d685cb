package oracle

// nexmarkShapes are the goldens about the shapes of windows that are aligned.
var nexmarkShapes = []nexmarkCase{
	{golden: "s01-tumble", from: "per", operators: tumble, lacks: []string{"bidders"}},
	{golden: "s06-late-tumble", from: "per", operators: tumble, lacks: []string{"bidders"}},
}

const tumble = `
operators:
  per:
    from: bid
    window:
      tumbling: 10s
      by: [auction]
      aggregate: {n: count(*), sum_price: sum(price), avg_price: avg(price), min_price: min(price), max_price: max(price)}
`
