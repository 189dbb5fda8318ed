-- SPDX-License-Identifier: Apache-2.0
-- Wireshark dissector for datagrams between longreach edges (proxy/wan/dgram/wan_frame.h).
--
--   wireshark -X lua_script:longreach.lua wan.pcapng
-- or put it into ~/.local/lib/wireshark/plugins. Another port than 4790: Preferences, Protocols, LONGREACH.
-- Whole RoCEv2 packets inside PACKET frames are handed to the IP dissectors.

local lr = Proto("longreach", "longreach WAN transport")

local VERSION = 0x4c
local SEALED = 0x80 -- bit in the header's flags
local HDR_LEN, TAG_LEN, FRAME_HDR_LEN, PACKET_BODY_LEN, REPORT_BODY_LEN = 16, 16, 4, 24, 32
local PIECE_UNIT = 64

local frame_types = {
	[0x01] = "PACKET",
	[0x02] = "FLOW_OPEN",
	[0x03] = "FLOW_REPORT",
	[0x04] = "FLOW_PAIR",
	[0x05] = "FLOW_CLOSE",
	[0x06] = "LANE_CREDIT",
	[0x07] = "IP",
	[0x08] = "READ_AGAIN",
	[0x09] = "RESP_CREDIT",
	[0x0a] = "RELAY_OPEN",
	[0x0b] = "RELAY_CREDIT",
	[0x10] = "REPORT",
	[0x11] = "REFUSED",
	[0x12] = "PROBE",
	[0x13] = "PING",
	[0x14] = "FEC",
	[0x15] = "REBUILT",
	[0x16] = "ARRIVALS",
	[0x17] = "PAD",
}
local packet_kinds = { [0] = "request", [1] = "response", [2] = "raw", [3] = "relay" }
local flow_states = { [0] = "ok", [1] = "rnr", [2] = "stalled", [3] = "failed" }

local f = {
	version = ProtoField.uint8("longreach.version", "Version", base.HEX),
	lane = ProtoField.uint8("longreach.lane", "Lane"),
	path = ProtoField.uint8("longreach.path", "Path"),
	flags = ProtoField.uint8("longreach.flags", "Flags", base.HEX),
	epoch = ProtoField.uint32("longreach.epoch", "Session epoch", base.HEX),
	wan_pn = ProtoField.uint64("longreach.wan_pn", "WAN packet number"),
	sealed = ProtoField.bytes("longreach.sealed", "Sealed frames"),
	tag = ProtoField.bytes("longreach.tag", "Tag"),
	frame_type = ProtoField.uint8("longreach.frame.type", "Type", base.HEX, frame_types),
	frame_flags = ProtoField.uint8("longreach.frame.flags", "Flags", base.HEX),
	frame_len = ProtoField.uint16("longreach.frame.length", "Length"),
	flow = ProtoField.uint32("longreach.flow", "Flow"),
	inc = ProtoField.uint32("longreach.inc", "Incarnation"),
	pos = ProtoField.uint64("longreach.pos", "Position"),
	pos_base = ProtoField.uint64("longreach.pos_base", "Base position"),
	at_pos = ProtoField.uint64("longreach.at_pos", "ACKed up to position"),
	total = ProtoField.uint16("longreach.total", "Packet length"),
	offset = ProtoField.uint16("longreach.offset", "Offset of this piece"),
	vlan = ProtoField.uint16("longreach.vlan_tci", "VLAN tag control", base.HEX),
	kind = ProtoField.uint8("longreach.kind", "Kind", base.DEC, packet_kinds),
	data = ProtoField.bytes("longreach.data", "Piece of a packet"),
	dest_qpn = ProtoField.uint32("longreach.dest_qpn", "Destination QPN", base.HEX),
	requester_qpn = ProtoField.uint32("longreach.requester_qpn", "Requester QPN", base.HEX),
	pmtu = ProtoField.uint16("longreach.pmtu", "Path MTU"),
	src = ProtoField.ipv6("longreach.src", "Requester"),
	dst = ProtoField.ipv6("longreach.dst", "Responder"),
	base_fixed = ProtoField.bool("longreach.open.base_fixed", "Base fixed", 8, nil, 0x01),
	paired = ProtoField.bool("longreach.open.paired", "Paired", 8, nil, 0x02),
	host_mode = ProtoField.bool("longreach.open.host_mode", "Mode host", 8, nil, 0x04),
	doubted = ProtoField.bool("longreach.open.doubted", "May begin anywhere", 8, nil, 0x08),
	far_mode = ProtoField.bool("longreach.open.far_mode", "Mode far", 8, nil, 0x10),
	resumed = ProtoField.bool("longreach.open.resumed", "Crossed before", 8, nil, 0x20),
	cm_tag = ProtoField.uint32("longreach.open.cm_tag", "Connection (CM)", base.HEX),
	confirmed = ProtoField.bool("longreach.pair.confirmed", "Confirmed", 8, nil, 0x01),
	msn_late = ProtoField.bool("longreach.pair.msn_late", "MSN perhaps too high", 8, nil, 0x02),
	received = ProtoField.uint64("longreach.received", "Received before"),
	delivered = ProtoField.uint64("longreach.delivered", "Delivered before"),
	credit = ProtoField.uint64("longreach.credit", "Credit up to"),
	again_round = ProtoField.uint16("longreach.again_round", "Again: round"),
	again_from = ProtoField.uint64("longreach.again_from", "Again: from"),
	nak_pos = ProtoField.uint64("longreach.nak_pos", "Refused position"),
	state = ProtoField.uint8("longreach.state", "State", base.DEC, flow_states),
	syndrome = ProtoField.uint8("longreach.syndrome", "AETH syndrome", base.HEX),
	msn = ProtoField.uint32("longreach.msn", "MSN"),
	template_len = ProtoField.uint16("longreach.template_len", "Template length"),
	window = ProtoField.uint64("longreach.window", "Lane window (bytes)"),
	flow_initial = ProtoField.uint32("longreach.flow_initial", "Initial credit of a flow (bytes)"),
	base = ProtoField.uint64("longreach.report.base", "Base"),
	largest = ProtoField.uint64("longreach.report.largest", "Largest received"),
	delay = ProtoField.uint64("longreach.report.delay_ns", "Delay (ns)"),
	words = ProtoField.uint16("longreach.report.words", "Words"),
	ect0 = ProtoField.uint24("longreach.report.ect0", "Came as ECT(0)"),
	ce = ProtoField.uint24("longreach.report.ce", "Came as CE"),
	bits = ProtoField.uint64("longreach.report.bits", "Bits", base.HEX),
	from_pn = ProtoField.uint64("longreach.from_pn", "From WAN packet number"),
}
lr.fields = {}
for _, field in pairs(f) do
	table.insert(lr.fields, field)
end

local e = {
	truncated = ProtoExpert.new("longreach.truncated", "Frame is shorter than it says", expert.group.MALFORMED,
		expert.severity.ERROR),
	bad_length = ProtoExpert.new("longreach.bad_length", "Frame has an impossible length", expert.group.MALFORMED,
		expert.severity.ERROR),
	unknown = ProtoExpert.new("longreach.unknown_frame", "Frame of unknown type", expert.group.UNDECODED,
		expert.severity.WARN),
	failed = ProtoExpert.new("longreach.flow_failed", "Responder refused acknowledged packets",
		expert.group.RESPONSE_CODE, expert.severity.WARN),
}
lr.experts = { e.truncated, e.bad_length, e.unknown, e.failed }

lr.prefs.port = Pref.uint("UDP port", 4790, "Port= in [Path] of the link")

local function inner_packet(tvb, pinfo, tree)
	local name = bit.rshift(tvb(0, 1):uint(), 4) == 6 and "ipv6" or "ip"
	Dissector.get(name):call(tvb, pinfo, tree)
end

local function flow_inc(body, tree)
	tree:add(f.flow, body(0, 4))
	tree:add(f.inc, body(4, 4))
	return string.format(" flow %d.%d", body(0, 4):uint(), body(4, 4):uint())
end

local decode = {}

decode[0x01] = function(body, pinfo, tree)
	if body:len() <= PACKET_BODY_LEN then
		return nil
	end
	local text = flow_inc(body, tree)
	local total, offset = body(16, 2):uint(), body(18, 2):uint()
	tree:add(f.pos, body(8, 8))
	tree:add(f.total, body(16, 2))
	tree:add(f.offset, body(18, 2))
	tree:add(f.vlan, body(20, 2))
	tree:add(f.kind, body(22, 1))
	local data = body(PACKET_BODY_LEN)
	if offset + data:len() > total or offset % PIECE_UNIT ~= 0 then
		return nil
	end
	text = string.format("%s pos %s %s", text, tostring(body(8, 8):uint64()),
		packet_kinds[body(22, 1):uint()] or "?")
	if offset == 0 and data:len() == total then
		return text, data
	end
	tree:add(f.data, data)
	return string.format("%s [%d..%d of %d]", text, offset, offset + data:len(), total)
end

decode[0x02] = function(body, pinfo, tree, flags)
	if body:len() ~= 64 then
		return nil
	end
	local text = flow_inc(body, tree)
	for _, bit_field in ipairs({ f.base_fixed, f.paired, f.host_mode, f.doubted, f.far_mode, f.resumed }) do
		tree:add(bit_field, flags)
	end
	tree:add(f.pos_base, body(8, 8))
	tree:add(f.dest_qpn, body(16, 4))
	tree:add(f.requester_qpn, body(20, 4))
	tree:add(f.vlan, body(24, 2))
	tree:add(f.pmtu, body(26, 2))
	tree:add(f.cm_tag, body(28, 4))
	tree:add(f.src, body(32, 16))
	tree:add(f.dst, body(48, 16))
	return string.format("%s base %s qpn 0x%06x", text, tostring(body(8, 8):uint64()), body(16, 4):uint())
end

decode[0x03] = function(body, pinfo, tree)
	if body:len() ~= 52 then
		return nil
	end
	local text = flow_inc(body, tree)
	tree:add(f.again_round, body(42, 2))
	tree:add(f.again_from, body(44, 8))
	tree:add(f.received, body(8, 8))
	tree:add(f.delivered, body(16, 8))
	tree:add(f.credit, body(24, 8))
	tree:add(f.nak_pos, body(32, 8))
	local state = tree:add(f.state, body(40, 1))
	tree:add(f.syndrome, body(41, 1))
	if body(40, 1):uint() == 3 then
		state:add_proto_expert_info(e.failed)
	end
	return string.format("%s received %s delivered %s credit %s %s", text, tostring(body(8, 8):uint64()),
		tostring(body(16, 8):uint64()), tostring(body(24, 8):uint64()),
		flow_states[body(40, 1):uint()] or "?")
end

decode[0x04] = function(body, pinfo, tree, flags)
	if body:len() < 36 or body(32, 2):uint() ~= body:len() - 36 then
		return nil
	end
	local text = flow_inc(body, tree)
	tree:add(f.confirmed, flags)
	tree:add(f.msn_late, flags)
	tree:add(f.pos_base, body(8, 8))
	tree:add(f.at_pos, body(16, 8))
	tree:add(f.msn, body(24, 4))
	tree:add(f.requester_qpn, body(28, 4))
	tree:add(f.template_len, body(32, 2))
	text = string.format("%s requester qpn 0x%06x", text, body(28, 4):uint())
	if body:len() > 36 then
		return text, body(36)
	end
	return text
end

decode[0x05] = function(body, pinfo, tree)
	if body:len() ~= 8 then
		return nil
	end
	return flow_inc(body, tree)
end

decode[0x06] = function(body, pinfo, tree)
	if body:len() ~= 16 then
		return nil
	end
	tree:add(f.window, body(0, 8))
	tree:add(f.flow_initial, body(8, 4))
	return string.format(" window %s", tostring(body(0, 8):uint64()))
end

local function decode_report(body, pinfo, tree)
	if body:len() < REPORT_BODY_LEN or body:len() ~= REPORT_BODY_LEN + 8 * body(24, 2):uint() then
		return nil
	end
	tree:add(f.base, body(0, 8))
	tree:add(f.largest, body(8, 8))
	tree:add(f.delay, body(16, 8))
	tree:add(f.words, body(24, 2))
	tree:add(f.ect0, body(26, 3))
	tree:add(f.ce, body(29, 3))
	for w = 0, body(24, 2):uint() - 1 do
		tree:add(f.bits, body(REPORT_BODY_LEN + 8 * w, 8))
	end
	return string.format(" base %s largest %s", tostring(body(0, 8):uint64()), tostring(body(8, 8):uint64()))
end

decode[0x10] = decode_report
decode[0x11] = decode_report

decode[0x12] = function(body, pinfo, tree)
	if body:len() ~= 8 then
		return nil
	end
	tree:add(f.from_pn, body(0, 8))
	return string.format(" from %s", tostring(body(0, 8):uint64()))
end

decode[0x13] = function(body, pinfo, tree)
	return ""
end

decode[0x14] = function(body, pinfo, tree)
	if body:len() <= 16 then
		return nil
	end
	tree:add(f.base, body(0, 8))
	return string.format(" base %s span %d group %d of %d repair %d of %d", tostring(body(0, 8):uint64()),
		body(8, 2):uint(), body(11, 1):uint(), body(10, 1):uint(), body(12, 1):uint() + 1, body(13, 1):uint())
end

decode[0x15] = function(body, pinfo, tree)
	local text = ""
	if body:len() == 0 or body:len() % 8 ~= 0 then
		return nil
	end
	for i = 0, body:len() / 8 - 1 do
		tree:add(f.from_pn, body(8 * i, 8))
		text = text .. " " .. tostring(body(8 * i, 8):uint64())
	end
	return text
end

decode[0x16] = function(body, pinfo, tree)
	if body:len() ~= 24 then
		return nil
	end
	return string.format(" lost %s of %s in %s bursts", tostring(body(8, 8):uint64()),
		tostring(body(0, 8):uint64()), tostring(body(16, 8):uint64()))
end

-- Dissects the frame at off; the frames end at last. Returns the offset behind the frame, or nil if it runs over the end.
local function dissect_frame(tvb, pinfo, tree, off, last, names)
	if last - off < FRAME_HDR_LEN then
		tree:add_proto_expert_info(e.truncated)
		return nil
	end
	local type, len = tvb(off, 1):uint(), tvb(off + 2, 2):uint()
	local name = frame_types[type] or string.format("type 0x%02x", type)
	if last - off - FRAME_HDR_LEN < len then
		tree:add_proto_expert_info(e.truncated)
		return nil
	end
	local sub = tree:add(lr, tvb(off, FRAME_HDR_LEN + len), name)
	local flags = tvb(off + 1, 1)
	sub:add(f.frame_type, tvb(off, 1))
	sub:add(f.frame_flags, flags)
	sub:add(f.frame_len, tvb(off + 2, 2))
	local body = len > 0 and tvb(off + FRAME_HDR_LEN, len):tvb() or ByteArray.new():tvb("empty")
	local text, inner = nil, nil
	table.insert(names, name)
	if decode[type] then
		text, inner = decode[type](body, pinfo, sub, flags)
		if text then
			sub:append_text(text)
		else
			sub:add_proto_expert_info(e.bad_length)
		end
	else
		sub:add_proto_expert_info(e.unknown)
	end
	if inner then
		inner_packet(inner:tvb(), pinfo, sub)
	end
	return off + FRAME_HDR_LEN + len
end

local function summary(names)
	local counts, order, text = {}, {}, {}
	for _, name in ipairs(names) do
		if not counts[name] then
			table.insert(order, name)
		end
		counts[name] = (counts[name] or 0) + 1
	end
	for _, name in ipairs(order) do
		table.insert(text, counts[name] > 1 and string.format("%s x%d", name, counts[name]) or name)
	end
	return table.concat(text, ", ")
end

function lr.dissector(tvb, pinfo, root)
	if tvb:len() < HDR_LEN + TAG_LEN or tvb(0, 1):uint() ~= VERSION then
		return 0
	end
	local tree = root:add(lr, tvb())
	local names, off, last = {}, HDR_LEN, tvb:len() - TAG_LEN
	tree:add(f.version, tvb(0, 1))
	tree:add(f.lane, tvb(1, 1))
	tree:add(f.path, tvb(2, 1))
	tree:add(f.flags, tvb(3, 1))
	tree:add(f.epoch, tvb(4, 4))
	tree:add(f.wan_pn, tvb(8, 8))
	tree:append_text(string.format(", lane %d, number %s", tvb(1, 1):uint(), tostring(tvb(8, 8):uint64())))
	-- the dissectors of inner packets overwrite addresses and columns: the datagram's are kept here
	local outer = { src = pinfo.src, dst = pinfo.dst, src_port = pinfo.src_port, dst_port = pinfo.dst_port }
	-- sealed: the bytes behind the header cannot be read without the keys, which longreachd does not export
	local sealed = bit.band(tvb(3, 1):uint(), SEALED) ~= 0
	if sealed then
		tree:add(f.sealed, tvb(off, last - off))
		names[1] = string.format("sealed, %d bytes", last - off)
	end
	while not sealed and off and off < last do
		off = dissect_frame(tvb, pinfo, tree, off, last, names)
	end
	tree:add(f.tag, tvb(last, TAG_LEN))
	pinfo.src, pinfo.dst = outer.src, outer.dst
	pinfo.src_port, pinfo.dst_port = outer.src_port, outer.dst_port
	pinfo.cols.protocol = "LONGREACH"
	pinfo.cols.info = string.format("lane %d pn %s: %s", tvb(1, 1):uint(), tostring(tvb(8, 8):uint64()),
		summary(names))
	return tvb:len()
end

local udp_ports = DissectorTable.get("udp.port")
local registered = lr.prefs.port

udp_ports:add(registered, lr)

function lr.prefs_changed()
	if registered ~= lr.prefs.port then
		udp_ports:remove(registered, lr)
		registered = lr.prefs.port
		udp_ports:add(registered, lr)
	end
end
