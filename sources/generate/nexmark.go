package generate

import (
	"math"
	"strconv"

	"frazil/dataflow"
)

// The stream of Nexmark, as its generators make it: of every 50 events one is a
// new person, three are new auctions, 46 are bids.
const (
	nexEpoch    = 50
	nexAuctions = 3
	nexBids     = 46
	nexFirstID  = 1000
	// Hot ids change every hundred ids; ids up to 10 ahead of the newest occur.
	nexHotEvery = 100
	nexAhead    = 10
	// Half of the bids come by one of four hot channels, the others by one of
	// these many.
	nexChannels    = 10_000
	nexHotChannels = 4
	nexCategories  = 5
	nexPriceSteps  = 12 // bits
	// Sizes in bytes that extra fills a record up to, as an average.
	nexPersonBytes  = 200
	nexAuctionBytes = 500
	nexBidBytes     = 100
	nexLetters      = 1 << 13
)

// Uses of the numbers that are drawn per event.
const (
	drawAuction uint64 = iota
	drawBidder
	drawPrice
	drawExtra
	drawName
	drawDescription
	drawReserve
	drawExpires
	drawSeller
	drawCategory
	drawEmail
	drawCard
	drawCity
)

// NexmarkBid is one bid. DateTime is in milliseconds since 1970, here and in
// the other records.
type NexmarkBid struct {
	Auction, Bidder, Price int64
	Channel, URL           string
	DateTime               int64
	Extra                  string
}

// NexmarkAuction is one new auction.
type NexmarkAuction struct {
	ID                    int64
	ItemName, Description string
	InitialBid, Reserve   int64
	DateTime, Expires     int64
	Seller, Category      int64
	Extra                 string
}

// NexmarkPerson is one new person.
type NexmarkPerson struct {
	ID                      int64
	Name, Email, CreditCard string
	City, State             string
	DateTime                int64
	Extra                   string
}

// Nexmark computes the events of the Nexmark benchmark. It is immutable and
// safe for concurrent use. Events are numbered from 0 on and have one order;
// each is a pure function of the seed and its number.
type Nexmark struct {
	seed                             uint64
	hotAuction, hotSeller, hotBidder uint64
	inFlight, people                 int64
	perSecond, start                 int64 // events a second; milliseconds
	events                           int64 // endless: math.MaxInt64
	prices                           [1<<nexPriceSteps + 1]int64
	letters                          spans
	channels, urls                   spans
	names, cities, states            spans
}

// spans are texts that lie in one buffer; a span is a place in it and a length.
// Behind the last one are at least spanStep bytes.
type spans struct {
	text []byte
	ends []uint32 // of text i, which starts where the one before ends
}

// spanStep is how many bytes are copied at once.
const spanStep = 32

func (s *spans) add(text string) {
	s.text = append(s.text, text...)
	s.ends = append(s.ends, uint32(len(s.text)))
}

func (s *spans) pad() { s.text = append(s.text, make([]byte, spanStep)...) }

func (s *spans) at(i int) (from, length uint32) {
	if i > 0 {
		from = s.ends[i-1]
	}
	return from, s.ends[i] - from
}

func (s *spans) string(from, length uint32) string { return string(s.text[from : from+length]) }

// NewNexmark checks c and prepares the tables that events are made from.
func NewNexmark(c NexmarkConfig) (*Nexmark, error) {
	if p := c.check(); len(p) > 0 {
		return nil, p
	}
	start, err := parseStart(c.Start)
	if err != nil {
		return nil, err
	}
	g := &Nexmark{
		seed: mix(uint64(c.Seed)), hotAuction: uint64(c.HotAuctions), hotSeller: uint64(c.HotSellers), hotBidder: uint64(c.HotBidders),
		inFlight: c.InFlightAuctions, people: c.ActivePeople, perSecond: c.PerSecond, start: floorDiv(start, 1000), events: c.Events,
	}
	if c.Events == 0 {
		g.events = endless
	}
	for i := range g.prices {
		g.prices[i] = int64(math.Round(100 * math.Pow(10, 6*float64(i)/(1<<nexPriceSteps))))
	}
	g.writeTexts()
	return g, nil
}

func (g *Nexmark) writeTexts() {
	for i := range nexLetters + 2*nexAuctionBytes {
		g.letters.text = append(g.letters.text, byte('a'+mix(g.seed^uint64(i))%26))
	}
	g.letters.pad()
	word := func(i, length int) string {
		from := mix(g.seed+uint64(i)) % nexLetters
		return g.letters.string(uint32(from), uint32(length))
	}
	for i := range nexChannels {
		g.channels.add("channel-" + strconv.Itoa(i))
		url := "https://www.nexmark.com/" + word(4*i, 5) + "/" + word(4*i+1, 5) + "/" + word(4*i+2, 5) + "/item.htm?query=1"
		if i%10 > 0 {
			url += "&channel_id=" + strconv.FormatUint(mix(uint64(i))>>33, 10)
		}
		g.urls.add(url)
	}
	for i, name := range [nexHotChannels]string{"Google", "Facebook", "Baidu", "Apple"} {
		g.channels.add(name)
		g.urls.add("https://www.nexmark.com/" + word(-4*i, 5) + "/" + word(-4*i-1, 5) + "/" + word(-4*i-2, 5) + "/item.htm?query=1")
	}
	for _, given := range []string{"Ada", "Bram", "Chloe", "Dov", "Esi", "Finn", "Goro", "Hana", "Ines", "Kai", "Walter"} {
		for _, family := range []string{"Abbott", "Castillo", "Eze", "Fontaine", "Holm", "Ito", "Noris", "Smith", "White"} {
			g.names.add(given + " " + family)
		}
	}
	for _, city := range []string{"Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"} {
		g.cities.add(city)
	}
	for _, state := range []string{"AZ", "CA", "ID", "OR", "WA", "WY"} {
		g.states.add(state)
	}
	for _, s := range []*spans{&g.channels, &g.urls, &g.names, &g.cities, &g.states} {
		s.pad()
	}
}

// draw is the number drawn for a use in event n.
func (g *Nexmark) draw(n int64, use uint64) uint64 {
	return mix(g.seed + uint64(n)*0x9e3779b97f4a7c15 + use*0xd1b54a32d192ed03)
}

// below scales the low, above the high 32 bits of h to 0 up to, not including,
// n, which has at most 31 bits.
func below(h, n uint64) uint64 { return (h & (1<<32 - 1)) * n >> 32 }
func above(h, n uint64) uint64 { return (h >> 32) * n >> 32 }

// millis is the event time of event n in milliseconds.
func (g *Nexmark) millis(n int64) int64 {
	return g.start + n/g.perSecond*1000 + n%g.perSecond*1000/g.perSecond
}

// nextMilli is the first event after n that has a later time.
func (g *Nexmark) nextMilli(n int64) int64 {
	second, at := n/g.perSecond*g.perSecond, n%g.perSecond
	milli := at*1000/g.perSecond + 1
	return second + (milli*g.perSecond+999)/1000
}

// lastAuction and lastPerson number, from 0 on, the newest one up to event n.
func lastAuction(n int64) int64 {
	return max(n/nexEpoch*nexAuctions+min(n%nexEpoch, nexAuctions)-1, 0)
}
func lastPerson(n int64) int64 { return n / nexEpoch }

func (g *Nexmark) bidAuction(n int64) int64 {
	h, last := g.draw(n, drawAuction), lastAuction(n)
	if below(h, g.hotAuction) > 0 {
		return nexFirstID + last/nexHotEvery*nexHotEvery
	}
	least := max(last-g.inFlight, 0)
	return nexFirstID + least + int64(above(h, uint64(last-least+1+nexAhead)))
}

func (g *Nexmark) bidBidder(n int64) int64 {
	h := g.draw(n, drawBidder)
	if below(h, g.hotBidder) > 0 {
		return nexFirstID + lastPerson(n)/nexHotEvery*nexHotEvery + 1
	}
	return g.anyPerson(n, h)
}

func (g *Nexmark) auctionSeller(n int64) int64 {
	h := g.draw(n, drawSeller)
	if below(h, g.hotSeller) > 0 {
		return nexFirstID + lastPerson(n)/nexHotEvery*nexHotEvery
	}
	return g.anyPerson(n, h)
}

func (g *Nexmark) anyPerson(n int64, h uint64) int64 {
	have := lastPerson(n) + 1
	active := min(have, g.people)
	return nexFirstID + have - active + int64(above(h, uint64(active+nexAhead)))
}

// price is log-uniform from 100 to 10^8: the low 32 bits of h choose between
// steps that were computed once.
func (g *Nexmark) price(h uint64) int64 {
	i, f := h>>(32-nexPriceSteps)&(1<<nexPriceSteps-1), int64(h&(1<<(32-nexPriceSteps)-1))
	low := g.prices[i]
	return low + (g.prices[i+1]-low)*f>>(32-nexPriceSteps)
}

func (g *Nexmark) bidPrice(n int64) int64 { return g.price(g.draw(n, drawPrice)) }

// bidChannel is the index of channel and URL.
func (g *Nexmark) bidChannel(n int64) int {
	c := above(g.draw(n, drawPrice), 2*nexChannels)
	if c < nexChannels {
		return int(c)
	}
	return int(nexChannels + c%nexHotChannels)
}

// filler is a span of letters that fills a record of a size up to want, give or
// take a fifth of it.
func (g *Nexmark) filler(h uint64, size, want int64) (from, length uint32) {
	d := max(want-size, 0)
	spread := (d + 2) / 5
	return uint32(above(h, nexLetters)), uint32(uint64(d-spread) + below(h, uint64(max(2*spread, 1))))
}

func (g *Nexmark) bidExtra(n int64) (from, length uint32) {
	return g.filler(g.draw(n, drawExtra), 4*8, nexBidBytes)
}

// words is a span of 3 up to, not including, most letters.
func (g *Nexmark) words(n int64, use, most uint64) (from, length uint32) {
	h := g.draw(n, use)
	return uint32(above(h, nexLetters)), uint32(3 + below(h, most-3))
}

func (g *Nexmark) itemName(n int64) (from, length uint32) { return g.words(n, drawName, 20) }
func (g *Nexmark) description(n int64) (from, length uint32) {
	return g.words(n, drawDescription, 100)
}
func (g *Nexmark) initialBid(n int64) int64 { return g.bidPrice(n) }
func (g *Nexmark) reserve(n int64) int64    { return g.initialBid(n) + g.price(g.draw(n, drawReserve)) }

// expires is the end of an auction: within the time that as many auctions as are
// in flight at once take to come, twice as long at most.
func (g *Nexmark) expires(n int64) int64 {
	horizon := max(g.millis(n+g.inFlight*nexEpoch/nexAuctions)-g.millis(n), 1)
	return g.millis(n) + 1 + int64(below(g.draw(n, drawExpires), uint64(2*horizon)))
}

func (g *Nexmark) category(n int64) int64 {
	return 10 + int64(below(g.draw(n, drawCategory), nexCategories))
}

func (g *Nexmark) auctionExtra(n int64) (from, length uint32) {
	_, name := g.itemName(n)
	_, description := g.description(n)
	return g.filler(g.draw(n, drawExtra), 6*8+int64(name+description), nexAuctionBytes)
}

func (g *Nexmark) personName(n int64) (from, length uint32) {
	return g.names.at(int(below(g.draw(n, drawName), uint64(len(g.names.ends)))))
}
func (g *Nexmark) city(n int64) (from, length uint32) {
	return g.cities.at(int(below(g.draw(n, drawCity), uint64(len(g.cities.ends)))))
}
func (g *Nexmark) state(n int64) (from, length uint32) {
	return g.states.at(int(above(g.draw(n, drawCity), uint64(len(g.states.ends)))))
}

func (g *Nexmark) appendEmail(dst []byte, n int64) []byte {
	from, length := g.words(n, drawEmail, 8)
	dst = append(append(dst, g.letters.text[from:from+length]...), '@')
	return append(append(dst, g.letters.text[from+length:from+2*length]...), ".com"...)
}

func (g *Nexmark) appendCard(dst []byte, n int64) []byte {
	h := g.draw(n, drawCard)
	for i := range 16 {
		if i > 0 && i%4 == 0 {
			dst = append(dst, ' ')
		}
		dst = append(dst, byte('0'+h%10))
		h /= 10
	}
	return dst
}

func (g *Nexmark) personExtra(n int64) (from, length uint32) {
	_, name := g.personName(n)
	_, city := g.city(n)
	_, email := g.words(n, drawEmail, 8)
	return g.filler(g.draw(n, drawExtra), 8+int64(name+city)+2*int64(email)+5+19+2, nexPersonBytes)
}

// Events is the number of events of all kinds, math.MaxInt64 if they never end.
func (g *Nexmark) Events() int64 { return g.events }

// Bid returns event n, and false if it is no bid.
func (g *Nexmark) Bid(n int64) (NexmarkBid, bool) {
	if n%nexEpoch <= nexAuctions {
		return NexmarkBid{}, false
	}
	c := g.bidChannel(n)
	return NexmarkBid{
		Auction: g.bidAuction(n), Bidder: g.bidBidder(n), Price: g.bidPrice(n),
		Channel: g.channels.string(g.channels.at(c)), URL: g.urls.string(g.urls.at(c)),
		DateTime: g.millis(n), Extra: g.letters.string(g.bidExtra(n)),
	}, true
}

// Auction returns event n, and false if it is no auction.
func (g *Nexmark) Auction(n int64) (NexmarkAuction, bool) {
	if o := n % nexEpoch; o == 0 || o > nexAuctions {
		return NexmarkAuction{}, false
	}
	return NexmarkAuction{
		ID: nexFirstID + lastAuction(n), ItemName: g.letters.string(g.itemName(n)), Description: g.letters.string(g.description(n)),
		InitialBid: g.initialBid(n), Reserve: g.reserve(n), DateTime: g.millis(n), Expires: g.expires(n),
		Seller: g.auctionSeller(n), Category: g.category(n), Extra: g.letters.string(g.auctionExtra(n)),
	}, true
}

// Person returns event n, and false if it is no person.
func (g *Nexmark) Person(n int64) (NexmarkPerson, bool) {
	if n%nexEpoch != 0 {
		return NexmarkPerson{}, false
	}
	return NexmarkPerson{
		ID: nexFirstID + lastPerson(n), Name: g.names.string(g.personName(n)), Email: string(g.appendEmail(nil, n)),
		CreditCard: string(g.appendCard(nil, n)), City: g.cities.string(g.city(n)), State: g.states.string(g.state(n)),
		DateTime: g.millis(n), Extra: g.letters.string(g.personExtra(n)),
	}, true
}

// arrivedAt is the simulated time of event n.
func (g *Nexmark) arrivedAt(n int64) dataflow.Time { return dataflow.Time(g.millis(n) * 1000) }
