-- SPDX-License-Identifier: Apache-2.0
-- Runs a headroom script of SONiC (sonic-swss cfgmgr/buffer_headroom_*.lua) on random links, with a stub in place of its
-- Redis. For each link one line: the options of `longreach headroom` that describe it, a tab, and "xon xoff size" as the
-- script has them. Lua 5.1.
--
--     lua5.1 sonic_lua.lua SCRIPT mellanox|barefoot N SEED

local script, vendor, n, seed = arg[1], arg[2], tonumber(arg[3]), tonumber(arg[4])
local run = assert(loadfile(script))

-- sonic-buildimage platform/mellanox/asic_table.j2, platform/barefoot/asic_table.j2
local asics = {
	mellanox = {
		{name = "spectrum", key = "MELLANOX-SPECTRUM", cell = 96, latency = 19, peer = 3.8},
		{name = "spectrum-2", key = "MELLANOX-SPECTRUM-2", cell = 144, latency = 19, peer = 3.8},
		{name = "spectrum-3", key = "MELLANOX-SPECTRUM-3", cell = 144, latency = 19, peer = 3.8},
		{name = "spectrum-4", key = "MELLANOX-SPECTRUM-4", cell = 192, latency = 19, peer = 3.8},
		{name = "spectrum-5", key = "MELLANOX-SPECTRUM-5", cell = 192, latency = 19, peer = 3.8},
		{name = "spectrum-6", key = "MELLANOX-SPECTRUM-6", cell = 256, latency = 42, peer = 3.8},
	},
	barefoot = {{name = "tofino-2", key = "BAREFOOT-TOFINO-2", cell = 176, latency = 68, peer = 9}},
}
local speeds = {100, 1000, 10000, 25000, 40000, 50000, 100000, 200000, 400000, 800000, 1600000}

local link -- the one that the stub answers for

local function flat(t)
	local list = {}
	for k, v in pairs(t) do
		list[#list + 1] = k
		list[#list + 1] = tostring(v)
	end
	return list
end

local function call(command, key, field)
	if command == "SELECT" then
		return "OK"
	elseif command == "KEYS" then
		return {(key:gsub("%*", "")) .. "|" .. link.asic.key}
	elseif command == "HGETALL" and key:find("^ASIC_TABLE") then
		return flat({cell_size = link.asic.cell, pipeline_latency = link.asic.latency, mac_phy_delay = 0.8,
			peer_response_time = link.asic.peer})
	elseif command == "HGETALL" and key:find("^LOSSLESS_TRAFFIC_PATTERN") then
		return flat({mtu = link.lossless_mtu, small_packet_percentage = link.percent})
	elseif command == "HGET" and field == "over_subscribe_ratio" then
		return "0"
	elseif command == "HGET" and field == "xoff" then
		return link.pool and "1000000" or "0"
	end
	error("the script asks for " .. command .. " " .. tostring(key) .. " " .. tostring(field))
end

local function one_of(list)
	return list[math.random(#list)]
end

math.randomseed(seed)
for _ = 1, n do
	link = {
		asic = one_of(asics[vendor]),
		speed = one_of(speeds),
		length = math.floor(10 ^ (math.random() * 5.5)) + 1,
		port_mtu = math.random(1500, 9216),
		gearbox = math.random() < 0.7 and 0 or math.random(1, 1000),
		lanes = one_of({1, 2, 4, 8}),
		percent = one_of({0, 1, 10, 33, 50, 75, 99, 100}),
		pool = vendor == "barefoot" or math.random() < 0.5,
	}
	link.lossless_mtu = one_of({512, 1024, 1500, math.min(4200, link.port_mtu), link.port_mtu})
	local env = setmetatable({
		redis = {call = call},
		KEYS = {"profile"},
		ARGV = {tostring(link.speed), link.length .. "m", tostring(link.port_mtu), tostring(link.gearbox),
			tostring(link.lanes)},
	}, {__index = _G})
	setfenv(run, env)
	local got = {}
	for _, line in ipairs(run()) do
		local k, v = line:match("^(%a+):(%d+)$")
		if k then
			got[k] = v
		end
	end
	print(string.format("--asic %s --rate %dM --length %dm --port-mtu %d --lossless-mtu %d --small-packets %d --pool %s " ..
		"--gearbox %dns --lanes %d\t%s %s %s", link.asic.name, link.speed, link.length, link.port_mtu, link.lossless_mtu,
		link.percent, link.pool and "on" or "off", link.gearbox, link.lanes, got.xon, got.xoff, got.size))
end
