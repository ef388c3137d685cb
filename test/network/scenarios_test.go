package network

import (
	"time"
)

var fine, gone = weather{}, weather{cut: true}

// scenarios in the order of portions.
var scenarios = []scenario{
	{name: "delay of 100 ms and loss of 5 % on all ways", run: func(x *trial) {
		x.all(weather{delay: 100 * time.Millisecond, loss: 0.05})
		x.last(x.some(10 * time.Second))
		x.all(fine)
	}},
	{name: "a quarter of the packets overtakes others, 1 % is lost", run: func(x *trial) {
		x.all(weather{delay: 30 * time.Millisecond, early: 0.25, loss: 0.01})
		x.last(x.some(10 * time.Second))
		x.all(fine)
	}},
	{name: "no way to the broker for 20 s", run: func(x *trial) {
		x.link.set(x.broker, gone, gone)
		x.last(20 * time.Second)
		x.link.set(x.broker, fine, fine)
	}},
	{name: "answers of the broker are lost", run: func(x *trial) {
		x.link.set(x.broker, fine, gone)
		x.last(x.some(10 * time.Second))
		x.link.set(x.broker, fine, fine)
	}},
	{name: "no way to the catalog from a commit on", run: func(x *trial) { x.atCommit(gone, gone) }},
	{name: "answers of the catalog are lost from a commit on", run: func(x *trial) { x.atCommit(fine, gone) }},
	{name: "no way to the store from an upload on", run: func(x *trial) {
		x.at(x.store, "PUT /", 1+x.rng.IntN(8), gone, gone)
	}},
	{name: "answers of the store are lost from an upload on", run: func(x *trial) {
		x.at(x.store, "PUT /", 1+x.rng.IntN(8), fine, gone)
	}},
	{name: "all ways come and go", run: func(x *trial) {
		end := time.Now().Add(x.some(10 * time.Second))
		for time.Now().Before(end) {
			x.all(gone)
			x.last(x.some(100*time.Millisecond) * 4)
			x.all(fine)
			x.last(x.some(100 * time.Millisecond))
			x.figures["flaps"]++
		}
	}},
	{name: "the broker is killed under load, twice", run: func(x *trial) { x.restart(x.kafka.Kill, "broker_kills", 2) }},
	{name: "the broker is stopped under load, twice", run: func(x *trial) { x.restart(x.kafka.Stop, "broker_stops", 2) }},
	{name: "the broker is killed and starts again behind a cut", run: func(x *trial) {
		x.link.set(x.broker, gone, gone)
		x.last(time.Second)
		x.restart(x.kafka.Kill, "broker_kills", 1)
		x.last(x.some(3 * time.Second))
		x.link.set(x.broker, fine, fine)
	}},
	{name: "no way anywhere, and the program is killed", run: func(x *trial) {
		x.all(gone)
		x.last(x.some(2 * time.Second))
		x.kill()
		x.start()
		x.last(x.some(2 * time.Second))
		x.all(fine)
	}},
	{name: "no way to the broker for a minute", run: func(x *trial) {
		x.link.set(x.broker, gone, gone)
		x.last(time.Minute)
		x.link.set(x.broker, fine, fine)
	}},
	{name: "no way to the MQTT broker for 20 s", mqtt: true, run: func(x *trial) {
		x.link.set(x.broker, gone, gone)
		x.last(20 * time.Second)
		x.link.set(x.broker, fine, fine)
	}},
	{name: "acknowledgements do not reach the MQTT broker, and the program is killed", mqtt: true, run: func(x *trial) {
		x.link.set(x.broker, gone, fine)
		x.last(x.some(3 * time.Second))
		x.kill()
		x.link.set(x.broker, fine, fine)
		x.start()
	}},
	{name: "messages of the MQTT broker are lost", mqtt: true, run: func(x *trial) {
		x.link.set(x.broker, fine, gone)
		x.last(x.some(10 * time.Second))
		x.link.set(x.broker, fine, fine)
	}},
	{name: "delay of 100 ms and loss of 5 % to the MQTT broker, and the way comes and goes", mqtt: true, run: func(x *trial) {
		bad := weather{delay: 100 * time.Millisecond, loss: 0.05}
		for end := time.Now().Add(x.some(10 * time.Second)); time.Now().Before(end); x.figures["flaps"]++ {
			x.link.set(x.broker, bad, bad)
			x.last(x.some(time.Second))
			x.link.set(x.broker, gone, gone)
			x.last(x.some(time.Second))
		}
		x.link.set(x.broker, fine, fine)
	}},
}

// atCommit changes the weather to the catalog at one of the next commits, before
// it has got there.
func (x *trial) atCommit(toServer, fromServer weather) {
	x.t.Helper()
	x.at(x.rest, "POST /v1/namespaces/", 1+x.rng.IntN(4), toServer, fromServer)
}

// at changes the weather to a server at the n-th request from now that begins so,
// for a while.
func (x *trial) at(server uint16, text string, n int, toServer, fromServer weather) {
	x.t.Helper()
	seen := x.link.when(server, text, n, func() { x.link.put(server, toServer, fromServer) })
	select {
	case <-seen:
	case <-x.run.Ended:
	case <-time.After(time.Minute):
		x.t.Fatalf("no request %q came", text)
	}
	x.last(x.some(10 * time.Second))
	x.link.set(server, fine, fine)
}

// restart ends the broker and starts it again, under load.
func (x *trial) restart(end func(), figure string, times int) {
	x.t.Helper()
	for range times {
		x.last(x.some(time.Second))
		end()
		x.last(x.some(time.Second))
		if err := x.kafka.Start(); err != nil {
			x.t.Fatal(err)
		}
		x.figures[figure]++
	}
}
